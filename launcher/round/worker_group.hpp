// A WorkerGroup has the workers of this node in one round, started and stopped as a unit.
//
// The group reports what happened and carries out what it is told; it never decides to stop or to restart
// (the agent does). The thread that runs `executor` drives it; every callback comes from there and
// never from inside a call of the group's own functions. Calling the group from a callback is allowed,
// destroying it as well. The agent owns it and makes a new one for every round. Destroyed early, it kills
// what is left and reports nothing more.
//
// Life: start_all once; then worker ends, each reported once; then all gone, reported once. A stop begins
// with the signal as the SignalScope says, with SIGCONT to every process group behind it, since a stopped
// process acts on nothing else. At half the grace period SIGTERM goes to every process group that is left, at
// its end SIGKILL. kKillTimeout later even an unkillable process is given up, by name. All gone means all:
// before it is reported, the runner has swept away what workers started in sessions of their own.
//
// Processes that a worker leaves behind in its process group are killed as soon as the worker has ended.
// During a stop they have the rest of the grace period, and get SIGTERM if the signal has not reached them
// before. A wrapper script often dies before the program it wraps has saved its state.
//
// The notices say to the user at once that workers are asked to end, at half the grace period which have not
// ended, and at its end which are killed.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/process/process_runner.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

// StopNotice: a signal was sent to the launcher, or something else ends the workers.
struct StopNotice {
    int ranks = 0;            // how many end, …
    bool is_of_node = false;  // … which are those of this node
    int signal = 0;           // by which the workers are asked to end; 0: something else has ended them
    std::chrono::milliseconds grace_period{0};
    bool is_interrupt = false;         // so that another one is impatience, …
    bool is_impatience_local = false;  // … which concerns this node alone
};

// Returns "stopping 4 ranks by SIGINT, up to 30 s (--grace); Ctrl-C again in a second or later ends it now".
std::string to_text(const StopNotice& notice);

struct GraceNotice {
    std::vector<int> ranks;     // that have not ended; if there are none, …
    std::vector<int> leftover;  // … those that have, but left processes behind
    int signal = 0;             // the last one by which the workers were asked to end
    std::chrono::milliseconds grace_period{0};
    bool is_hastened = false;
    bool is_over = false;  // else half of it has passed
};

// Returns "ranks 0,3 have not ended 15 s after SIGTERM; SIGKILL in 15 s (--grace 30)".
std::string to_text(const GraceNotice& notice);

struct WorkerEnd {
    int rank = 0;
    int local_rank = 0;
    pid_t pid = 0;
    ExitStatus status;
    // stopped_by_us: the worker ended after expect_stop(), stop() or kill_now(), and by no other signal than
    // those of the stop. Then its end is no failure of its own.
    bool stopped_by_us = false;
    bool outlasted_grace = false;  // by the SIGKILL at the end of the grace period
    std::chrono::nanoseconds wall_time{0};
    ResourceUse use;  // zeros where it is not known
};

struct WorkerStartFailure {
    int rank = 0;
    int local_rank = 0;
    StartFailure failure;
};

// An UnkillableWorker is a process that is still there kKillTimeout after SIGKILL.
struct UnkillableWorker : Survivor {
    int rank = -1;        // of the worker; -1 for a process that a worker left behind
    int local_rank = -1;  // of the worker; -1 likewise
};

// Returns "rank 3, pid 77 (python3, state D in nfs_wait)," to be followed by "does not end even by SIGKILL".
std::string to_string(const UnkillableWorker& worker);

class GroupObserver {
  public:
    virtual void ended(const WorkerEnd& end) = 0;
    // Tells that nothing of the group is left but these; normally none.
    virtual void group_gone(const std::vector<UnkillableWorker>& unkillable) = 0;
    // Tells that half the grace period, or all of it, has passed, and which workers are still there. At half
    // of it the observer calls ask_again(), from here or soon.
    virtual void grace_passed(const GraceNotice& notice) = 0;

  protected:
    ~GroupObserver() = default;
};

class WorkerGroup : private WorkerObserver {
  public:
    using Duration = std::chrono::milliseconds;

    // kKillTimeout: how long a killed worker may take to vanish (it may hang in the kernel, for example on a
    // dead file server).
    static constexpr Duration kKillTimeout = std::chrono::seconds(15);

    WorkerGroup(const boost::asio::any_io_executor& executor, ProcessRunner& runner, GroupObserver& observer,
                SignalScope scope = SignalScope::automatic, Duration kill_timeout = kKillTimeout);
    WorkerGroup(const WorkerGroup&) = delete;
    WorkerGroup& operator=(const WorkerGroup&) = delete;
    ~WorkerGroup();

    // Starts all of these workers, or returns which one could not be started; the ones before it are then
    // killed at once. In both cases group_gone() comes later, also if nothing was started at all. Further
    // workers may be started in the same turn of the executor, as long as none was refused.
    std::optional<WorkerStartFailure> start_all(const std::vector<WorkerSpec>& specs);

    // Passes a signal on to every worker, as the scope says. No stop begins.
    void signal_all(int signal) { signal_all(signal, scope_); }

    // Stops every process group that is left (SIGSTOP); thaw() lets it go on (SIGCONT).
    void freeze() { signal_all(SIGSTOP, SignalScope::group); }
    void thaw() { signal_all(SIGCONT, SignalScope::group); }

    // Tells that stop() follows with this signal: what ends meanwhile ends in the stop. Returns false if
    // there is nothing to stop.
    bool expect_stop(int signal);

    // Asks every worker to end with `signal`, as the scope says, and after `grace_period` kills what is left.
    // Called again, it sends the new signal and the earlier deadline counts.
    void stop(int signal, Duration grace_period);

    // Sends SIGTERM to every process group that is left, at half of the grace period.
    void ask_again();

    // Limits the time of a stop to this from now on (--lost-grace), also of one that is under way.
    void hasten(Duration most);

    void kill_now();

    // Kills what was started, in place of further starts. group_gone() comes later in any case.
    void give_up_starting();

    // Returns true if all are gone, and the kernel says that nothing is left that a worker had started.
    bool nothing_left() const { return nothing_left_; }

    std::vector<WorkerStatus> running_workers() const;

    // Returns when what is left is killed; nothing: no stop is under way, or that has happened.
    std::optional<Deadline> kill_at() const {
        return stopping_ && !killing_ && !all_gone() ? std::optional(grace_timer_.expiry()) : std::nullopt;
    }

  private:
    struct Worker {
        enum class Phase { running, ended, gone };

        int rank = 0;
        int local_rank = 0;
        pid_t pid = 0;
        std::chrono::steady_clock::time_point started;
        Phase phase = Phase::running;
        ResourceUse use;  // once it has ended
    };

    void signal_all(int signal, SignalScope scope);
    void begin_grace(Duration grace_period);
    void wait(boost::asio::steady_timer& timer, Deadline deadline, void (WorkerGroup::*then)());
    void cancel_timers();
    void half_over();
    void grace_over();
    GraceNotice notice_of_grace(bool is_over) const;
    void worker_used(pid_t pid, const ResourceUse& use) override { worker_of(pid).use = use; }
    void worker_exited(pid_t pid, const ExitStatus& status) override;
    void worker_group_gone(pid_t pid) override;
    Worker& worker_of(pid_t pid);
    void begin_sweep();
    void finish(const SweepResult& result);
    bool all_gone() const;

    ProcessRunner& runner_;
    GroupObserver& observer_;
    const SignalScope scope_;
    boost::asio::steady_timer half_timer_;
    boost::asio::steady_timer grace_timer_;
    const Duration kill_timeout_;
    std::vector<Worker> workers_;
    std::set<int> sent_;  // signals, to whichever of them
    Duration grace_period_{0};
    std::optional<Duration> most_;  // see hasten()
    int stop_signal_ = 0;
    bool is_stop_due_ = false;  // or under way
    bool stopping_ = false;
    bool killing_ = false;
    bool grace_over_ = false;
    bool sweeping_ = false;
    bool nothing_left_ = false;
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
