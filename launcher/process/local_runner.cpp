#include "launcher/process/local_runner.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "launcher/process/descriptors.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// The first look for leftovers comes soon, since a killed process needs hardly a millisecond.
constexpr std::chrono::milliseconds kFirstLook{1};
constexpr std::chrono::milliseconds kLongestLook{50};

// The destructor waits so long for killed workers; what hangs in the kernel longer is left to init.
constexpr std::chrono::milliseconds kDestructionTimeout{1000};

}  // namespace

struct LocalRunner::Child {
    Child(SessionLauncher::Process&& started, WorkerObserver& told_of_it)
        : process(std::move(started)),
          pid(process.id()),
          ending(process.get_executor()),
          observer(told_of_it) {}

    SessionLauncher::Process process;
    const pid_t pid;
    // This one stands beside the process's own, which reports an end only when nobody can ask any more what
    // was used.
    boost::asio::posix::stream_descriptor ending;
    WorkerObserver& observer;
    bool exited = false;
    ToldProcesses told;
    int leftover_signal = 0;  // what is left gets this one; 0 for none
    bool abandoned = false;   // by forget() or by the end of the runner; nothing is reported then

    // Waits for nothing any more.
    void let_go() {
        boost::system::error_code ignored;
        ending.close(ignored);
        process.detach();
    }
};

LocalRunner::LocalRunner(const boost::asio::any_io_executor& executor, std::optional<JobCgroup> cgroup)
    : executor_(executor),
      cgroup_(std::move(cgroup)),
      sweeper_(executor, {.has_owner =
                              [this](pid_t pid) {
                                  auto child = children_.find(pid);
                                  return child != children_.end() && !child->second->exited;
                              },
                          .spared = {},
                          .kill_at_once =
                              [this] {
                                  if (cgroup_) cgroup_->kill();
                              }}),
      leftover_timer_(executor) {
    struct sigaction action = {};
    ::sigaction(SIGCHLD, nullptr, &action);
    if (action.sa_handler == SIG_IGN) ::signal(SIGCHLD, SIG_DFL);
    become_subreaper();
}

LocalRunner::~LocalRunner() {
    for (auto& [pid, child] : children_) {
        child->abandoned = true;
        child->let_go();
    }
    sweep_now({}, kDestructionTimeout);
}

void LocalRunner::children_changed() {
    processes_.forget();
    sweeper_.reap();
}

// Orders for many workers come in one turn.
OwnProcesses& LocalRunner::processes() {
    if (!std::exchange(forgets_, true)) {
        boost::asio::post(executor_, alive_.guard([this] {
            forgets_ = false;
            processes_.forget();
        }));
    }
    return processes_;
}

std::variant<Started, StartFailure> LocalRunner::start(const WorkerSpec& spec, WorkerObserver& observer) {
    const int cgroup = cgroup_ ? cgroup_->open_worker(spec.local_rank) : -1;
    auto result = launcher_(executor_, spec, cgroup);
    if (cgroup >= 0) ::close(cgroup);
    if (auto* failure = std::get_if<StartFailure>(&result)) return std::move(*failure);
    processes_.forget();
    auto child = std::make_shared<Child>(std::get<SessionLauncher::Process>(std::move(result)), observer);
    children_.emplace(child->pid, child);
    wait_for_end(child);
    if (cgroup_) cgroup_->note(spec.local_rank, launcher_.used_cgroup());
    return Started{child->pid, launcher_.used_cgroup()};
}

std::filesystem::path LocalRunner::worker_cgroup(int local_rank) const {
    return cgroup_ ? cgroup_->used_path(local_rank) : std::filesystem::path();
}

void LocalRunner::signal_worker(pid_t worker, int signal, SignalScope scope) {
    const auto entry = children_.find(worker);
    if (entry == children_.end()) return;
    Child& child = *entry->second;
    if (scope == SignalScope::leftovers) child.leftover_signal = signal;
    deliver_signal({worker, child.exited}, signal, scope, child.told, processes());
}

void LocalRunner::sweep(std::chrono::milliseconds timeout, std::function<void(const SweepResult&)> done) {
    check(!sweep_done_, "one sweep at a time");
    sweep_done_ = std::move(done);
    sweeper_.sweep(timeout, [this](const SweepResult& result) {
        swept_ = result;
        processes_.forget();
        look_at_leftovers();
        finish_sweep();
    });
}

// The last events of the workers come before the result, unless some worker has none to come.
void LocalRunner::finish_sweep() {
    if (!swept_ || (!children_.empty() && swept_->survivors.empty())) return;
    const SweepResult result = *std::exchange(swept_, std::nullopt);
    std::exchange(sweep_done_, {})(result);
}

void LocalRunner::forget(pid_t worker) {
    auto entry = children_.find(worker);
    if (entry == children_.end()) return;
    Child& child = *entry->second;
    child.abandoned = true;
    // Without this the executor would have work for as long as the worker hangs.
    child.let_go();
    children_.erase(entry);
}

void LocalRunner::wait_for_end(const std::shared_ptr<Child>& child) {
    OwnedDescriptor ending = open_end_of_child(child->pid);
    // Nobody learns what was used if there are no descriptors left.
    if (!ending) return wait_for_exit(child);
    child->ending.assign(ending.release());
    child->ending.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                             [this, child](const boost::system::error_code& error) {
                                 if (child->abandoned) return;
                                 const auto use = error ? std::nullopt : use_of_ended(child->pid);
                                 child->ending.close();
                                 if (use) child->observer.worker_used(child->pid, *use);
                                 wait_for_exit(child);
                             });
}

void LocalRunner::wait_for_exit(const std::shared_ptr<Child>& child) {
    child->process.async_wait([this, child](const boost::system::error_code& error, int) {
        if (child->abandoned) return;
        check(!error, "a worker was reaped by somebody else");
        child->exited = true;
        processes_.forget();
        const ExitStatus status = decode_wait_status(child->process.native_exit_code());
        sweeper_.reap();
        child->observer.worker_exited(child->pid, status);
        if (child->abandoned) return;
        if (!awaits_leftovers_) next_look_ = kFirstLook;
        look_at_group(child);
    });
}

void LocalRunner::look_at_group(const std::shared_ptr<Child>& child) {
    if (!processes().has_group(child->pid)) {
        child->abandoned = true;
        children_.erase(child->pid);
        child->observer.worker_group_gone(child->pid);
        return finish_sweep();
    }
    if (child->leftover_signal != 0)
        deliver_signal({child->pid, true}, child->leftover_signal, SignalScope::leftovers, child->told,
                       processes());
    await_leftovers();
}

void LocalRunner::look_at_leftovers() {
    const auto children = children_;
    for (const auto& [pid, child] : children) {
        if (child->exited && !child->abandoned) look_at_group(child);
    }
}

void LocalRunner::await_leftovers() {
    if (std::exchange(awaits_leftovers_, true)) return;
    leftover_timer_.expires_after(next_look_);
    next_look_ = std::min(next_look_ * 2, kLongestLook);
    leftover_timer_.async_wait(alive_.guard([this](const boost::system::error_code& error) {
        awaits_leftovers_ = false;
        if (!error) look_at_leftovers();
    }));
}

}  // namespace launch
}  // namespace ddprun
