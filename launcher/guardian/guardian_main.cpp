#include "launcher/guardian/guardian_main.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <memory>

#include "launcher/guardian/guardian_wire.hpp"
#include "launcher/process/child_events.hpp"
#include "launcher/process/local_runner.hpp"
#include "launcher/process/sweeper.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun {
namespace {

namespace asio = boost::asio;

constexpr int kChannelNumber = STDERR_FILENO + 1;

void block_signals() {
    sigset_t blocked;
    sigfillset(&blocked);
    // A bug of ours should end us at the place where it is.
    for (int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
        sigdelset(&blocked, signal);
    ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

void lead_to_nowhere(int stream) {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0) ::dup2(fd, stream);
    if (fd == stream) ::fcntl(fd, F_SETFD, 0);
    if (fd > STDERR_FILENO) ::close(fd);
}

void close_from(int first) {
    if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), &::closedir);
    if (!directory) return;
    std::vector<int> open;
    while (const dirent* entry = ::readdir(directory.get())) open.push_back(std::atoi(entry->d_name));
    for (int fd : open) {
        if (fd >= first && fd != ::dirfd(directory.get())) ::close(fd);
    }
}

// The guardian itself. Everything happens on its only thread.
class Guardian {
  public:
    Guardian(GuardianChannel channel, const std::optional<JobCgroup>& cgroup)
        : channel_(std::move(channel)),
          socket_(context_, channel_.fd()),
          runner_(context_.get_executor(), cgroup),
          children_(context_.get_executor(), [this] { runner_.children_changed(); }) {
        listen();
    }

    // Until the agent is gone.
    void run() { context_.run(); }

  private:
    void listen() {
        socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const auto& error) {
            check(!error, "the guardian cannot wait for the agent");
            if (receive_all()) {
                listen();
            } else {
                context_.stop();
            }
        });
    }

    bool receive_all() {
        for (;;) {
            auto received = channel_.receive();
            if (std::holds_alternative<GuardianChannel::Lost>(received)) return false;
            if (std::holds_alternative<GuardianChannel::Nothing>(received)) return true;
            obey(std::get<GuardianChannel::Packet>(received));
        }
    }

    void obey(GuardianChannel::Packet& packet) {
        // Only starts come with descriptors.
        if (packet.incomplete) return send(no_descriptors());
        auto order = decode_order(packet.bytes);
        check(order.has_value(), "the agent sent no order");
        if (auto* start = std::get_if<StartWorker>(&*order)) {
            std::vector<int> numbers;
            for (const OwnedDescriptor& descriptor : packet.descriptors) numbers.push_back(descriptor.get());
            check(give_descriptors(start->spec, numbers), "the agent sent other descriptors than it said");
            start_worker(start->spec);
        } else if (const auto* signal = std::get_if<SignalWorker>(&*order)) {
            runner_.signal_worker(signal->worker, signal->signal, signal->scope);
        } else if (const auto* forget = std::get_if<ForgetWorker>(&*order)) {
            runner_.forget(forget->worker);
        } else if (const auto* sweep = std::get_if<SweepAll>(&*order)) {
            runner_.sweep(sweep->patience, [this](const SweepResult& result) { send(result); });
        }
    }

    static StartFailure no_descriptors() {
        return {EMFILE, "cannot start a worker: the guardian has no descriptors left for its streams",
                kExitSystem};
    }

    void start_worker(const WorkerSpec& spec) {
        // Its number is known to the events before any of them can come.
        auto pid = std::make_shared<pid_t>(0);
        auto result = runner_.start(spec, {[this, pid](const ExitStatus& status) {
                                               send(WorkerExited{*pid, status});
                                           },
                                           [this, pid] { send(GroupGone{*pid}); }});
        if (auto* failure = std::get_if<StartFailure>(&result)) return send(std::move(*failure));
        const Started started = std::get<Started>(result);
        *pid = started.pid;
        send(started);
    }

    // An agent that was stopped (Ctrl-Z) reads later; until then what it must know is kept. It is no more
    // than the ends of the workers that it started.
    void send(GuardianEvent event) {
        waiting_.push_back(encode_event(event));
        if (waiting_.size() == 1) send_waiting();
    }

    void send_waiting() {
        while (!waiting_.empty()) {
            const int error_number = channel_.send(waiting_.front());
            if (error_number == EPIPE) return context_.stop();
            if (error_number != 0) return send_later();
            waiting_.pop_front();
        }
    }

    void send_later() {
        socket_.async_wait(asio::posix::stream_descriptor::wait_write, [this](const auto& error) {
            check(!error, "the guardian cannot wait for the agent");
            send_waiting();
        });
    }

    asio::io_context context_{1};
    GuardianChannel channel_;
    asio::posix::stream_descriptor socket_;
    LocalRunner runner_;
    ChildEvents children_;
    std::deque<std::string> waiting_;
};

SweepRules rules_for(const std::optional<JobCgroup>& cgroup) {
    return {.has_owner = {}, .sweeps_itself = {}, .spared = {}, .kill_at_once = [&cgroup] {
                if (cgroup) cgroup->kill();
            }};
}

// The end of either process. No destructor and no atexit handler of the agent's may run here.
[[noreturn]] void end_all(const std::optional<JobCgroup>& cgroup) {
    sweep_now(rules_for(cgroup), kGuardianPatience);
    if (cgroup) cgroup->remove();
    ::_exit(0);
}

[[noreturn]] void become_guardian(const GuardianChannel& inherited, const std::optional<JobCgroup>& cgroup) {
    ::prctl(PR_SET_NAME, kGuardianName);
    ::setpgid(0, 0);
    become_subreaper();
    for (int stream : {STDIN_FILENO, STDOUT_FILENO}) lead_to_nowhere(stream);
    if (!is_inherited(STDERR_FILENO)) lead_to_nowhere(STDERR_FILENO);
    check(::dup3(inherited.fd(), kChannelNumber, O_CLOEXEC) >= 0 || errno == EINVAL, "dup3 failed");
    close_from(kChannelNumber + 1);
    Guardian* guardian = new Guardian(GuardianChannel(OwnedDescriptor(kChannelNumber)), cgroup);
    guardian->run();
    // Whoever reads what the agent said must not wait for us.
    lead_to_nowhere(STDERR_FILENO);
    end_all(cgroup);
}

}  // namespace

bool is_inherited(int fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

void become_keeper(GuardianChannel channel, const std::optional<JobCgroup>& cgroup) {
    ::prctl(PR_SET_NAME, kKeeperName);
    ::setpgid(0, 0);
    block_signals();
    become_subreaper();
    const pid_t guardian = ::fork();
    if (guardian == 0) become_guardian(channel, cgroup);
    for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) lead_to_nowhere(stream);
    close_from(STDERR_FILENO + 1);
    // Whatever ends before the guardian was its orphan's orphan, and is reaped here on the way.
    for (pid_t ended = 0; guardian > 0 && ended != guardian;) {
        ended = ::waitpid(-1, nullptr, __WALL);
        if (ended < 0 && errno != EINTR) break;
    }
    end_all(cgroup);
}

}  // namespace ddprun
