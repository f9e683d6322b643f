// Sweeper: ends every process below this one. For a process that is a child sub-reaper: a process whose
// parent ends then becomes our child, so that neither a new session nor a double fork leads out of reach.
//
// Owned and driven by one thread, the one that runs `executor`; there is one in a process, and it waits for
// any child there is (SweepRules name the exceptions). That a child ended is an event for its owner
// (SIGCHLD), who calls reap(). What is no child of ours yet, because a killed process is on its way out, is
// no event: during a sweep only there are looks at growing intervals.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "launcher/alive.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun::inline launch {

struct SweepRules {
    // Yes for a child that its owner waits for: a sweep kills it, but does not reap or count it.
    std::function<bool(pid_t)> has_owner;
    // Yes for a child that ends all below it and then itself when we are gone: it is killed only when nothing
    // else is left. Otherwise a SIGKILL for us in the middle of a sweep would leave nobody who sweeps.
    std::function<bool(pid_t)> sweeps_itself;
    // Children that are no business of ours; neither they nor what is below them is killed.
    std::vector<ProcessStat> spared;
    // Kills everything in one stroke where the system has a way (a cgroup); called besides, not instead.
    std::function<void()> kill_at_once;
};

class Sweeper {
  public:
    using Duration = std::chrono::milliseconds;
    using Done = std::function<void(const SweepResult&)>;

    Sweeper(const boost::asio::any_io_executor& executor, SweepRules rules);
    ~Sweeper();

    // Reaps what has ended. To be called when a child may have ended, also after an owner reaped one of his:
    // the kernel shows one ended child at a time.
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

// The same, blocking, for a process that has nothing else to do: also children with an owner are reaped.
SweepResult sweep_now(SweepRules rules, Sweeper::Duration timeout);

// Makes this process the new parent of the orphans below it, for the rest of its life.
void become_subreaper();

// True if this process has no child at all, running or ended.
bool has_no_child();

}  // namespace ddprun::inline launch
