// Sweeper ends every process below this one, which has to be a child sub-reaper. A process then becomes our
// child when its parent ends, so neither a new session nor a double fork escapes.
//
// Owned and driven by one thread, the one that runs `executor`. A process has one Sweeper, which waits for
// any child there is (SweepRules name the exceptions). The end of a child is an event for the owner
// (SIGCHLD), which calls reap(). A process that is no child of ours yet, because its killed parent is still
// ending, causes no event: only during a sweep there are looks at growing intervals.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "launcher/process/process_runner.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/base/alive.hpp"

namespace ddprun {
inline namespace launch {

struct SweepRules {
    // has_owner: true for a child that its owner waits for. A sweep kills it, but does not reap or count it.
    std::function<bool(pid_t)> has_owner;
    // sweeps_itself: true for a child that, when we are gone, ends all below it and then itself. A sweep
    // kills it last. Otherwise, if we were killed in the middle of a sweep, nothing would sweep the rest.
    std::function<bool(pid_t)> sweeps_itself;
    // spared: children that are not ours to end, nor are the processes below them.
    std::vector<ProcessStat> spared;
    // kill_at_once kills everything in one stroke where the system has a way (a cgroup). Called in addition,
    // not instead.
    std::function<void()> kill_at_once;
};

class Sweeper {
  public:
    using Duration = std::chrono::milliseconds;
    using Done = std::function<void(const SweepResult&)>;

    Sweeper(const boost::asio::any_io_executor& executor, SweepRules rules);
    ~Sweeper();

    // Reaps what has ended. Called by the owner of the sweeper when a child may have ended. Called also after
    // a child with an owner was reaped, as the kernel shows one ended child at a time.
    void reap();

    // Kills all and calls back from the executor once all is gone, or with what is left after `timeout`.
    void sweep(Duration timeout, Done done);

  private:
    class Attempt;

    void look();

    SweepRules rules_;
    boost::asio::steady_timer timer_;
    std::unique_ptr<Attempt> attempt_;  // while a sweep is under way
    Done done_;
    Alive alive_;

    friend SweepResult sweep_now(SweepRules rules, Duration timeout);
};

// Sweeps, and blocks until done; for a process that has nothing else to do. Children with an owner are
// reaped, too.
SweepResult sweep_now(SweepRules rules, Sweeper::Duration timeout);

// Makes this process the new parent of the orphans below it, for the rest of its life.
void become_subreaper();

// Returns true if this process has no child at all, running or ended.
bool has_no_child();

// Finds the processes of a job that are still there when it is over: living ones that began with
// DDPRUN_RUN_ID=<job_id> in their environment, at `since` (ProcessStat::start_time) or later.
//
// Called when the sweep at the end could not prove that there are none (SweepResult). Either a process does
// not end even by SIGKILL, or children that the launcher had before stand in the way of the proof. Every
// process of a job carries the job's id in its environment, unless the program removed it, and can thus be
// found under any parent. Processes that another service has started for a worker (a unit of systemd, a
// container) are left to that service.
//
// Reads all of /proc, and blocks. Environments of other users' processes cannot be read and are not opened;
// the job's own are the launcher's user's, and younger than the launcher.
std::vector<Survivor> find_survivors(std::string_view job_id, std::uint64_t since = 0,
                                     const std::filesystem::path& proc = "/proc");

// ChildEvents tells whenever a child of this process may have ended, as an event (SIGCHLD through a
// descriptor).
//
// The constructor blocks SIGCHLD for good in its thread, and in the threads that this thread starts later.
// Hence a ChildEvents is made before any other thread. A process has one, because the signal is told once.
// Programs started by SessionLauncher do not inherit the mask.
class ChildEvents {
  public:
    // Calls `on_change` from the executor, once for any number of children. Throws system_error when there
    // are no descriptors left.
    ChildEvents(const boost::asio::any_io_executor& executor, std::function<void()> on_change);

  private:
    void wait();

    boost::asio::posix::stream_descriptor signals_;
    std::function<void()> on_change_;
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
