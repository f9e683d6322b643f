// RoundWorkers are this node's workers of one round, from their ranks to how each of them ended.
//
// RoundWorkers starts the WorkerGroup with what worker_placement.hpp says, stops it, and asks for evidence of
// what failed; the outcome stands in the RoundLedger. RoundWorkers decides nothing. The agent makes a new one
// for every round, and uses it and its LifeWatch on its thread; `options`, `runner`, `pump`, `features` and
// the observer outlive it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/process/life_watch.hpp"
#include "launcher/process/process_runner.hpp"
#include "launcher/report/failure_cause.hpp"
#include "launcher/round/raised_wait.hpp"
#include "launcher/round/round_ledger.hpp"
#include "launcher/round/worker_group.hpp"
#include "launcher/stop/stop_gate.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace launch {

// A RoundObserver is told what becomes of the workers of a round.
class RoundObserver {
  public:
    // Tells that the first worker of this node failed by itself, or could not be started.
    virtual void workers_fail(const Failure& failure) = 0;
    // Tells that nothing of this node's workers is left but these (normally none), and that all they printed
    // was taken over.
    virtual void workers_gone(const std::vector<UnkillableWorker>& unkillable) = 0;
    // Sends what the coordinator is to hear of. WorkerDying: a worker ends, sent as soon as that is seen,
    // long before its end is known. Workers that were ending already when workers_fail() came, or stop() or
    // kill_now(), are told of directly after that, others not any more. RankSucceeded: the first rank of this
    // node has ended with 0.
    virtual void send(const ControlMessage& message) = 0;
    virtual void say(LogLevel level, const std::string& line) = 0;

  protected:
    ~RoundObserver() = default;
};

class RoundWorkers final : private GroupObserver {
  public:
    // RoundWorkers: `station` is what all workers of this node have in common; the key of their mesh is made
    // here. `oom`: where the kernel counts the processes that it kills in this launcher's cgroup.
    RoundWorkers(const boost::asio::any_io_executor& executor, ProcessRunner& runner, OutputPump& pump,
                 const LaunchOptions& options, const RoundReady& place, WorkerStation station, OomSources oom,
                 const Features& features, RoundObserver& observer);
    RoundWorkers(const RoundWorkers&) = delete;
    RoundWorkers& operator=(const RoundWorkers&) = delete;

    // Starts all workers. What goes wrong is reported by workers_fail() before start returns; workers_gone()
    // comes in any case, and may destroy this object.
    void start();

    // Stops the workers as `cause` says, once no feature holds the signal. Called again, it sends the new
    // signal, and what is held before that; no feature is asked again.
    void stop(const StopCause& cause);
    // Sends a signal that features hold, if there is one: a user does not want to wait.
    void hurry() { gate_.take_now(); }
    // Limits the time of a stop to this from now on (--lost-grace), what features hold included; a signal
    // that is held is sent.
    void hasten(std::chrono::milliseconds most);
    bool is_over() const { return open_steps_ == 0; }
    // Counts this worker as failed, though it has not ended, if that is the first failure.
    void hangs(int local_rank, const std::string& why);
    void kill_now();
    void freeze() { group_.freeze(); }
    void thaw() { group_.thaw(); }

    // Does what the coordinator says to the workers: a signal of the user's, a life lost on another node
    // (perhaps in another round), the last words of the failed for the screen.
    void hear(const ControlMessage& message);

    bool nothing_left() const { return group_.nothing_left(); }
    // Returns what the last sweep could not end.
    const std::vector<UnkillableWorker>& unkillable() const { return unkillable_; }
    // Returns the ledger. When workers_gone() comes, its failure() is complete; it may differ then from the
    // one that workers_fail() told of.
    const RoundLedger& ledger() const { return ledger_; }
    WorkersGone gone() const;
    // Returns all workers, by local rank.
    std::vector<WorkerStatus> status() const { return ledger_.status(group_.running_workers()); }
    // Returns when workers that are told to end are killed; nothing: none is.
    std::optional<Deadline> kill_at() const { return group_.kill_at(); }
    // Returns where the output of a failing worker of this node is, in words; empty if there are no such
    // files.
    std::string logs_of(const Failure& failure) const;
    // Returns the error file of a worker that failed as it is; empty without one.
    std::string error_file_text(int rank) const;

  private:
    // Tells what this launcher leaves if it is killed now.
    void tell_traces();
    std::optional<WorkerStartFailure> start_group();
    void prepare();
    // Starts the workers from local rank `first` up to `end`. Throws what the system refuses.
    std::optional<WorkerStartFailure> start_some(int first, int end);
    void look_for_deaths();
    std::vector<int> settle();
    void tell_ending(const std::vector<int>& ranks);
    void ended(const WorkerEnd& end) override;
    void group_gone(const std::vector<UnkillableWorker>& unkillable) override;
    void grace_passed(const GraceNotice& notice) override;
    void stop_now(int signal);
    void say_slow_stop();
    void fail(const Failure& failure);
    void gather_evidence(Failure& failure);
    void step_done();

    boost::asio::any_io_executor executor_;
    const LaunchOptions& options_;
    ProcessRunner& runner_;
    OutputPump& pump_;
    RoundReady place_;
    WorkerStation station_;
    OomSources oom_;
    const Features& features_;
    RoundObserver& observer_;
    RoundLedger ledger_;
    WorkerGroup group_;
    StopGate gate_;
    StopCause cause_;                      // of the last step of the stop; signal 0: there is none yet
    std::optional<Deadline> last_moment_;  // see hasten()
    RaisedWait raised_;
    boost::asio::steady_timer slow_timer_;
    std::unique_ptr<LifeWatch> watch_;  // while there are workers, where the system lets us
    bool has_traces_ = false;           // of a feature, while there are workers
    OomCounters oom_before_;
    std::vector<std::string> error_files_;         // by local rank
    std::map<int, std::string> error_file_texts_;  // by rank, of those that failed
    std::vector<UnkillableWorker> unkillable_;
    int open_steps_ = 1;  // what workers_gone() waits for: the group, its output, the evidence
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
