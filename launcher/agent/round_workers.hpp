// RoundWorkers: this node's workers in one round, from their ranks to how each of them ended.
//
// Starts the WorkerGroup with what worker_placement.hpp says, stops it, and asks for evidence of what failed;
// what it came to stands in the RoundLedger. Driven by the agent on its thread, which makes a new one for
// every round and may destroy it when on_gone has returned. Decides nothing.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/life_watch.hpp"
#include "launcher/agent/round_ledger.hpp"
#include "launcher/agent/worker_group.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/output/worker_channel.hpp"
#include "launcher/report/failure_cause.hpp"
#include "launcher/watch/agent_news.hpp"
#include "launcher/watchdog/file_watchdog.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/system/alive.hpp"

namespace ddprun::inline launch {

struct RoundEvents {
    // The first worker of this node failed by itself, or could not be started.
    std::function<void(const Failure&)> on_failure;
    // Nothing of this node's workers is left but these (normally none), and all they printed was taken over.
    std::function<void(const std::vector<UnkillableWorker>&)> on_gone;
    // A worker ends, as is seen long before its end is known. Of those that were ending already when
    // on_failure came, stop() or kill_now(): directly after that; of others not any more.
    std::function<void(const WorkerDying&)> on_dying = [](const WorkerDying&) {};
    // This rank ended with 0, the first of this node.
    std::function<void(int rank)> on_first_success = [](int) {};
    // A worker ended; before what else comes of that.
    std::function<void(const WorkerEnded&)> on_end = [](const WorkerEnded&) {};
    // A timer of a process of this node is over, and it is about to be sent the signal.
    std::function<void(const TimerExpired&)> on_timer = [](const TimerExpired&) {};
    // What a user who waits wants to know: workers take long to end.
    std::function<void(const std::string&)> on_notice = [](const std::string&) {};
    // What is wrong, and ends nothing.
    std::function<void(const std::string&)> on_warning = [](const std::string&) {};
    // What happens, in words, for --verbose.
    std::function<void(const std::string&)> on_step = [](const std::string&) {};
};

class RoundWorkers {
  public:
    // `station`: what all workers of this node have in common; the key of their mesh is made here.
    RoundWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner, OutputPump& pump,
                 const LaunchOptions& options, const RoundReady& place, WorkerStation station,
                 RoundEvents events);
    RoundWorkers(const RoundWorkers&) = delete;
    RoundWorkers& operator=(const RoundWorkers&) = delete;

    // Starts all of them. What goes wrong is reported by on_failure before start returns; on_gone comes in
    // any case.
    void start();

    void signal_all(int signal) { group_.signal_all(signal); }
    void stop(int signal);
    void kill_now();
    void freeze();
    void thaw();

    // A life was lost on another node.
    void peer_died(std::uint64_t life) {
        if (watch_) watch_->announce(life);
    }

    // The launcher's terminal has another size (SIGWINCH).
    void window_changed() {
        if (relay_) relay_->window_changed();
    }

    // See WorkerGroup.
    bool nothing_left() const { return group_.nothing_left(); }
    // When on_gone comes, its failure() is complete; and it may be another one then than on_failure told of.
    const RoundLedger& ledger() const { return ledger_; }
    WorkersGone gone() const;
    // All of them, by local rank.
    std::vector<WorkerStatus> status() const { return ledger_.status(group_.running_workers()); }
    // Where what a failing worker of this node printed is, in words; empty if there are no such files.
    std::string logs_of(const Failure& failure) const;
    // The error file of a worker that failed as it is; empty without one.
    std::string error_file_text(int rank) const;

  private:
    // What this launcher leaves if it is killed now.
    void tell_traces();
    std::optional<WorkerStartFailure> start_group();
    void prepare();
    // Those from local rank `first` up to `end`. Throws what the system refuses.
    std::optional<WorkerStartFailure> start_some(int first, int end);
    void make_watchdog();
    void timer_expired(const ExpiredTimer& timer, std::optional<pid_t> worker);
    void look_for_deaths();
    std::vector<int> settle();
    void tell_ending(const std::vector<int>& ranks);
    void ended(const WorkerEnd& end);
    void fail(const Failure& failure);
    void gather_evidence(Failure& failure);
    void group_gone(const std::vector<UnkillableWorker>& unkillable);
    void step_done();

    boost::asio::any_io_executor executor_;
    const LaunchOptions& options_;
    ProcessRunner& runner_;
    OutputPump& pump_;
    RoundReady place_;
    WorkerStation station_;
    RoundEvents events_;
    RoundLedger ledger_;
    std::optional<TerminalRelay> relay_;  // while the rank of --tty is here and we have a terminal
    WorkerGroup group_;
    std::unique_ptr<LifeWatch> watch_;      // while there are workers, where the system lets us
    std::optional<FileWatchdog> watchdog_;  // likewise, where the user wants one
    OomCounters oom_before_;
    std::vector<std::string> error_files_;         // by local rank
    std::map<int, std::string> error_file_texts_;  // by rank, of those that failed
    std::vector<UnkillableWorker> unkillable_;
    int open_steps_ = 1;  // what on_gone waits for: the group, its output, the evidence
    Alive alive_;
};

}  // namespace ddprun::inline launch
