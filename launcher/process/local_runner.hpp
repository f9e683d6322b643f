// LocalRunner is the ProcessRunner that forks in this process, which it makes a child sub-reaper: a
// descendant that loses its parent becomes a child of this process, and a sweep finds it. A sweep, and the
// end of the runner, take every child of this process for a worker's. A process therefore has one LocalRunner
// and no children from elsewhere.
//
// Events come from `executor`. The thread that calls start() must live as long as the process (see
// SessionLauncher). No other code may reap children that the runner started. SIGCHLD must not be ignored, or
// the kernel would throw away how workers ended: the constructor sets it to its default if the launcher
// inherited it ignored.
//
// The end of a worker is an event (its pidfd). A worker's process group is signalled even after the worker
// was reaped: the number stays the group's as long as the group has a member. Without a member the signal
// could only hit a process that has got the number meanwhile and leads a group, which takes a whole turn of
// the pid counter. The end of a group's last leftover is no event for a process that is not its parent. For
// leftovers only, one timer with growing intervals looks at all such groups.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>

#include "launcher/process/job_cgroup.hpp"
#include "launcher/process/process_runner.hpp"
#include "launcher/process/session_launcher.hpp"
#include "launcher/process/signal_delivery.hpp"
#include "launcher/process/sweeper.hpp"
#include "rendezvous/base/alive.hpp"

namespace ddprun {
inline namespace launch {

class LocalRunner final : public ProcessRunner {
  public:
    // Starts each worker in a folder of its own in the cgroup, if there is one and the system permits that.
    explicit LocalRunner(const boost::asio::any_io_executor& executor,
                         std::optional<JobCgroup> cgroup = std::nullopt);

    // Kills and reaps what is left, within kDestructionTimeout.
    ~LocalRunner() override;

    // Reaps orphans that have ended. Called by an owner that hears of SIGCHLD; otherwise they wait for the
    // next sweep.
    void children_changed();

    std::variant<Started, StartFailure> start(const WorkerSpec& spec, WorkerObserver& observer) override;
    void signal_worker(pid_t worker, int signal, SignalScope scope) override;
    void sweep(std::chrono::milliseconds timeout, std::function<void(const SweepResult&)> done) override;
    void forget(pid_t worker) override;
    std::filesystem::path worker_cgroup(int local_rank) const override;

  private:
    struct Child;

    void wait_for_end(const std::shared_ptr<Child>& child);
    void wait_for_exit(const std::shared_ptr<Child>& child);
    void look_at_group(const std::shared_ptr<Child>& child);
    void look_at_leftovers();
    void await_leftovers();
    void finish_sweep();
    OwnProcesses& processes();

    boost::asio::any_io_executor executor_;
    std::optional<JobCgroup> cgroup_;
    SessionLauncher launcher_;
    Sweeper sweeper_;
    std::function<void(const SweepResult&)> sweep_done_;  // while a sweep is under way
    std::optional<SweepResult> swept_;                    // once the sweeper has finished
    std::map<pid_t, std::shared_ptr<Child>> children_;
    OwnProcesses processes_;  // a look at /proc in this turn of the executor
    bool forgets_ = false;    // `processes_` is forgotten at the end of this turn
    boost::asio::steady_timer leftover_timer_;
    bool awaits_leftovers_ = false;
    std::chrono::milliseconds next_look_{0};
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
