#include "launcher/local_runner.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>

#include "launcher/process_group.hpp"
#include "launcher/session_launcher.hpp"
#include "rendezvous/check.hpp"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

// The looks for leftovers: soon at first, since a killed process needs hardly a millisecond.
constexpr std::chrono::milliseconds kFirstLook{1};
constexpr std::chrono::milliseconds kLongestLook{50};

// How long the destructor waits for killed workers; what hangs in the kernel longer is left to init.
constexpr std::chrono::milliseconds kDestructionPatience{1000};

// Reaps a killed child if it ends before the deadline.
void reap_until(pid_t pid, Clock::time_point deadline) {
    const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (pidfd >= 0) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd event{pidfd, POLLIN, 0};
        ::poll(&event, 1, static_cast<int>(std::max<long>(left, 0)));
        ::close(pidfd);
    }
    ::waitpid(pid, nullptr, WNOHANG);
}

}  // namespace

struct LocalRunner::Child {
    Child(SessionLauncher::Process&& started, WorkerEvents&& reports)
        : process(std::move(started)),
          pid(process.id()),
          events(std::move(reports)),
          timer(process.get_executor()) {}

    SessionLauncher::Process process;
    const pid_t pid;
    WorkerEvents events;
    boost::asio::steady_timer timer;
    std::chrono::milliseconds next_look = kFirstLook;
    bool exited = false;
    bool abandoned = false;  // by forget() or by the end of the runner; nothing is reported then
};

LocalRunner::LocalRunner(const boost::asio::any_io_executor& executor) : executor_(executor) {
    struct sigaction action = {};
    ::sigaction(SIGCHLD, nullptr, &action);
    if (action.sa_handler == SIG_IGN) ::signal(SIGCHLD, SIG_DFL);
}

LocalRunner::~LocalRunner() {
    for (auto& [pid, child] : children_) ::kill(-pid, SIGKILL);
    const auto deadline = Clock::now() + kDestructionPatience;
    for (auto& [pid, child] : children_) {
        child->abandoned = true;
        child->timer.cancel();
        child->process.detach();
        if (!child->exited) reap_until(pid, deadline);
    }
}

std::variant<Started, StartFailure> LocalRunner::start(const WorkerSpec& spec, WorkerEvents events) {
    auto result = SessionLauncher{}(executor_, spec);
    if (auto* failure = std::get_if<StartFailure>(&result)) return std::move(*failure);
    auto child =
        std::make_shared<Child>(std::get<SessionLauncher::Process>(std::move(result)), std::move(events));
    children_.emplace(child->pid, child);
    wait_for_exit(child);
    return Started{child->pid};
}

void LocalRunner::signal_group(pid_t worker, int signal) {
    if (children_.count(worker) != 0) ::kill(-worker, signal);
}

void LocalRunner::forget(pid_t worker) {
    auto entry = children_.find(worker);
    if (entry == children_.end()) return;
    Child& child = *entry->second;
    child.abandoned = true;
    child.timer.cancel();
    // Without this the executor would have work for as long as the worker hangs.
    child.process.detach();
    children_.erase(entry);
}

void LocalRunner::wait_for_exit(const std::shared_ptr<Child>& child) {
    child->process.async_wait([this, child](const boost::system::error_code& error, int) {
        if (child->abandoned) return;
        check(!error, "a worker was reaped by somebody else");
        child->exited = true;
        child->events.on_exit(decode_wait_status(child->process.native_exit_code()));
        if (!child->abandoned) look_at_group(child);
    });
}

void LocalRunner::look_at_group(const std::shared_ptr<Child>& child) {
    if (!process_group_alive(child->pid)) {
        children_.erase(child->pid);
        child->events.on_group_gone();
        return;
    }
    child->timer.expires_after(child->next_look);
    child->next_look = std::min(child->next_look * 2, kLongestLook);
    child->timer.async_wait([this, child](const boost::system::error_code& error) {
        if (!error && !child->abandoned) look_at_group(child);
    });
}

}  // namespace ddprun
