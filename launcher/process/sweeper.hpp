// Sweeper ends every process below this one, which has to be a child sub-reaper: a process whose parent ends
// then becomes our child, so that neither a new session nor a double fork leads out of reach.
//
// Owned and driven by one thread, the one that runs `executor`; there is one in a process, and it waits for
// any child there is (SweepRules name the exceptions). That a child ended is an event for its owner
// (SIGCHLD), who calls reap(). What is no child of ours yet, because a killed process is on its way out, is
// no event: during a sweep only there are looks at growing intervals.
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
    // It says yes for a child that its owner waits for: a sweep kills it, but does not reap or count it.
    std::function<bool(pid_t)> has_owner;
    // It says yes for a child that ends all below it and then itself when we are gone: it is killed only when
    // nothing else is left. Otherwise a SIGKILL for us in the middle of a sweep would leave nobody who
    // sweeps.
    std::function<bool(pid_t)> sweeps_itself;
    // These children are no business of ours; neither they nor what is below them is killed.
    std::vector<ProcessStat> spared;
    // It kills everything in one stroke where the system has a way (a cgroup); it is called besides, not
    // instead.
    std::function<void()> kill_at_once;
};

class Sweeper {
  public:
    using Duration = std::chrono::milliseconds;
    using Done = std::function<void(const SweepResult&)>;

    Sweeper(const boost::asio::any_io_executor& executor, SweepRules rules);
    ~Sweeper();

    // Reaps what has ended. The owner calls it when a child may have ended, also after an owner reaped one of
    // his: the kernel shows one ended child at a time.
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

// Sweeps and blocks, in a process that has nothing else to do; children with an owner are reaped, too.
SweepResult sweep_now(SweepRules rules, Sweeper::Duration timeout);

// Makes this process the new parent of the orphans below it, for the rest of its life.
void become_subreaper();

// True if this process has no child at all, running or ended.
bool has_no_child();

// Finds the processes of a job that are still there when it is over: living ones with DDPRUN_RUN_ID=<job_id>
// in the environment they were started with, of those that were started at `since` (ProcessStat::start_time)
// or later.
//
// It is called when the sweep at the end could not prove that there are none (SweepResult): something does
// not end even by SIGKILL, or children that the launcher had before stand in the way of the proof. Every
// process of a job carries the job's id in its environment, unless it took it out itself, so they can be
// counted under any parent. What another service has started for a worker (a unit of systemd, a container) is
// that service's to end.
//
// It looks at all of /proc, blocking. Environments of other users' processes cannot be read and are not
// opened; the job's own are the launcher's user's, and younger than the launcher.
std::vector<Survivor> find_survivors(std::string_view job_id, std::uint64_t since = 0,
                                     const std::filesystem::path& proc = "/proc");

// ChildEvents tells whenever a child of this process may have ended, as an event (SIGCHLD through a
// descriptor).
//
// It blocks SIGCHLD in the thread that makes it, for good, and in the threads that this one starts later; so
// it is made before any other thread. There is one in a process, because the signal is told once. Programs
// started by SessionLauncher do not inherit the mask.
class ChildEvents {
  public:
    // `on_change` comes from the executor, once for any number of children. Throws system_error when there
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
