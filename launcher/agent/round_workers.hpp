// This node's workers: NodeWorkers has them and what they print, from round to round; RoundWorkers are those of one round,
// from their ranks to how each of them ended.
//
// RoundWorkers starts the WorkerGroup with what worker_placement.hpp says, stops it, and asks for evidence of what failed;
// what it came to stands in the RoundLedger. It decides nothing. NodeWorkers makes a new one for every round. While
// NodeWorkers lives the launcher's own lines go between the workers', wait their turn there and never stop supervision.
// Before the first round there are no workers, and what is asked of them is done to nobody.
//
// Both belong to the agent and are used on its thread; `options`, `runner`, `features` and the observer outlive them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/life_watch.hpp"
#include "launcher/agent/round_ledger.hpp"
#include "launcher/agent/worker_group.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/output/worker_channel.hpp"
#include "launcher/process/process_runner.hpp"
#include "launcher/report/failure_cause.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/system/alive.hpp"

namespace ddprun::inline launch {

// Is told what becomes of the workers of a round.
class RoundObserver {
  public:
    // The first worker of this node failed by itself, or could not be started.
    virtual void workers_fail(const Failure& failure) = 0;
    // Nothing of this node's workers is left but these (normally none), and all they printed was taken over.
    virtual void workers_gone(const std::vector<UnkillableWorker>& unkillable) = 0;
    // The coordinator is to hear of this: WorkerDying as soon as it is seen that a worker ends, which is long before its end
    // is known (those that were ending already when workers_fail() came, stop() or kill_now() are told of directly after
    // that, others not any more); RankSucceeded when the first rank of this node has ended with 0.
    virtual void send(const ControlMessage& message) = 0;
    virtual void say(LogLevel level, const std::string& line) = 0;

  protected:
    ~RoundObserver() = default;
};

class RoundWorkers {
  public:
    // `station`: what all workers of this node have in common; the key of their mesh is made here.
    RoundWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner, OutputPump& pump,
                 const LaunchOptions& options, const RoundReady& place, WorkerStation station,
                 const Features& features, RoundObserver& observer);
    RoundWorkers(const RoundWorkers&) = delete;
    RoundWorkers& operator=(const RoundWorkers&) = delete;

    // Starts all of them. What goes wrong is reported by workers_fail() before start returns; workers_gone() comes in
    // any case, and may destroy this.
    void start();

    void signal_all(int signal) { group_.signal_all(signal); }
    void stop(int signal);
    void kill_now();
    void freeze() { group_.freeze(); }
    void thaw() { group_.thaw(); }

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
    // When workers_gone() comes, its failure() is complete; and it may be another one then than workers_fail() told of.
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
    const Features& features_;
    RoundObserver& observer_;
    RoundLedger ledger_;
    std::optional<TerminalRelay> relay_;  // while the rank of --tty is here and we have a terminal
    WorkerGroup group_;
    std::unique_ptr<LifeWatch> watch_;  // while there are workers, where the system lets us
    bool has_pipe_ = false;             // a feature has made one for these workers
    OomCounters oom_before_;
    std::vector<std::string> error_files_;         // by local rank
    std::map<int, std::string> error_file_texts_;  // by rank, of those that failed
    std::vector<UnkillableWorker> unkillable_;
    int open_steps_ = 1;  // what workers_gone() waits for: the group, its output, the evidence
    Alive alive_;
};

class NodeWorkers {
  public:
    NodeWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                const LaunchOptions& options, LauncherLog& log, const Features& features,
                RoundObserver& observer);
    ~NodeWorkers() { close_output(); }

    void warn_of(const std::vector<UnkillableWorker>& unkillable);
    // Another round follows, because of this.
    void announce(const Restarting& restarting);

    // The workers of the last round, nullptr before the first.
    const RoundWorkers* last_round() const { return round_ ? &*round_ : nullptr; }
    std::vector<WorkerStatus> status() const {
        return round_ ? round_->status() : std::vector<WorkerStatus>();
    }

    // `station`: the store as workers see it, and the address by which the rendezvous has shown that this node is reached;
    // the rest is filled in here and by RoundWorkers.
    void start(const RoundReady& place, WorkerStation station);
    void stop(int signal) { with_round(&RoundWorkers::stop, signal); }
    void kill_now() { with_round(&RoundWorkers::kill_now); }
    void signal_all(int signal) { with_round(&RoundWorkers::signal_all, signal); }
    void freeze() { with_round(&RoundWorkers::freeze); }
    void thaw() { with_round(&RoundWorkers::thaw); }
    void peer_died(const PeerDying& dying) {
        if (dying.round == number_) with_round(&RoundWorkers::peer_died, dying.life);
    }
    void window_changed() {
        pump_.window_changed();
        with_round(&RoundWorkers::window_changed);
    }

    OutputPump& output() { return pump_; }
    // Ends the pump, and with it the log's way through it; returns what was lost.
    std::vector<std::string> close_output();

  private:
    template <typename... Arguments>
    void with_round(void (RoundWorkers::*act)(Arguments...), Arguments... arguments) {
        if (round_) (*round_.*act)(arguments...);
    }

    boost::asio::any_io_executor executor_;
    ProcessRunner& runner_;
    const LaunchOptions& options_;
    LauncherLog& log_;
    const Features& features_;
    RoundObserver& observer_;
    OutputPump pump_;
    std::optional<RoundWorkers> round_;
    int number_ = 0;  // of the round
};

}  // namespace ddprun::inline launch
