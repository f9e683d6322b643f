// Round: what the workers of the current round do, from their start to the last one's end: which failed
// first, which have ended, which still run, which signals they were sent. Pure; the Coordinator owns it and
// calls it in the order of what happens.
//
//   begin() ──► suspect(), exit wait, node_succeeded() … ──► all have ended with 0
//                   └─ tell() a failure, stop() ──► node_gone() for each node ──► find_cause()
//
// The round writes each node's run (NodeRun) in the Roster, and decides nothing about what follows.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/coordinator/coordinator_options.hpp"
#include "rendezvous/coordinator/first_failure.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/roster.hpp"
#include "rendezvous/membership/seating.hpp"

namespace ddprun {
inline namespace job {

// ExitWait: --exit-wait of a round. When some rank has ended with 0 and others go on, it says after a while
// which these are. Pure; the Coordinator feeds it and asks the nodes, since only these know which ranks run.
//
//   none ended ──ended──► waiting ──deadline, ask──► asking ──all answered, or deadline──► concluded
//
// A node that does not answer in time has said of none of its ranks that it ended: they count as running.

class ExitWait {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // kAnswerTimeout: how long the nodes may take to answer.
    static constexpr std::chrono::seconds kAnswerTimeout{5};
    // kMaxRangesShown: how many ranges of ranks that still run are named; the rest is counted.
    static constexpr std::size_t kMaxRangesShown = 16;

    // ExitWait without options never has a deadline.
    explicit ExitWait(std::optional<ExitWaitOptions> options) : options_(std::move(options)) {}

    void round_begins();

    // Notes that this rank ended with 0. Only the first one of the round counts.
    void ended(int rank, TimePoint now);

    // Returns when nodes have to be asked, or are no longer waited for.
    std::optional<TimePoint> deadline() const { return deadline_; }
    bool is_due(TimePoint now) const { return deadline_ && now >= *deadline_; }
    // Begins the time anew, since no rank had any while the machine stood still.
    void begin_again(TimePoint now) {
        if (deadline_)
            deadline_ = now + (is_asking() ? std::chrono::milliseconds(kAnswerTimeout) : options_->wait);
    }

    // Notes that the nodes are asked now; `all`: by node rank all ranks that each of them has.
    void ask(std::map<int, StillRunning> all, TimePoint now);
    bool is_asking() const { return state_ == State::asking; }
    // Returns true once no node is left to answer. What a node says of ranks that are not its own is passed
    // over.
    bool answer(int node_rank, const StillRunning& answer);

    // Ends the wait for answers. Returns the line for the user; nothing if all ranks have ended after all.
    std::optional<std::string> conclude();

    // Returns, once concluded with a line, whether the ranks in it are to be ended: failure() is the cause,
    // and first_node() has the first of them. The caller fills in its place (node, host, local rank).
    bool kills() const { return options_ && options_->kill; }
    int first_node() const;
    Failure failure() const;

  private:
    enum class State : std::uint8_t { nobody_ended, waiting, asking, concluded };

    std::string since() const;

    std::optional<ExitWaitOptions> options_;
    State state_ = State::nobody_ended;
    std::optional<TimePoint> deadline_;
    int first_ended_ = 0;
    std::map<int, StillRunning> running_;  // by node rank
    std::set<int> unanswered_;
};

// SignalNotices: signals for the workers, each counted once. A signal that a scheduler sends to a whole job
// reaches all of its agents, and each of them tells the coordinator. Pure; the Coordinator feeds it.
class SignalNotices {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // kSameSignal: signals to several agents within this time are one signal: as long as a scheduler may take
    // to reach all nodes.
    static constexpr std::chrono::seconds kSameSignal{5};

    // Returns true if the agent on this connection is the first to tell of the signal. If one agent is sent
    // the signal twice, the second is another signal: true once more.
    bool is_news(std::uint64_t connection, int signal, TimePoint now);

    void round_begins() { sent_.clear(); }

  private:
    struct Sent {
        TimePoint passed_on;
        int count = 0;  // passed on
        std::map<std::uint64_t, int>
            told;  // by connection, how often; agents only, so at most one for each node
    };
    std::map<int, Sent> sent_;  // by the signal's number
};

class Round {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // kMaxDeathsTold: messages in a round that tell agents of single deaths elsewhere. Workers learn of
    // further deaths when connections close.
    static constexpr std::size_t kMaxDeathsTold = 100'000;

    explicit Round(const CoordinatorOptions& options);

    // Returns the number of the round that runs or is about to.
    int number() const { return number_; }
    // Returns whether that round has begun, here or under another coordinator.
    bool has_run() const { return has_run_; }
    // Returns what ends the round, as far as is known.
    const std::optional<Failure>& cause() const { return cause_; }
    std::chrono::milliseconds uptime() const { return uptime_; }
    bool progressed() const { return progressed_; }
    bool is_requeued() const { return requeue_; }

    // Begins the next round, with the nodes as they are seated. Returns the ranks of each.
    std::vector<NodeRanks> begin(Roster& roster, TimePoint now);
    // Takes on the number of another coordinator's last round while a new coordinator is chosen. Perhaps no
    // agent has heard of that round yet.
    void follow(int number) { number_ = number; }
    // Takes over that round, which has ended for this cause.
    void take_over(Failure cause, const JobNodes& nodes);

    // Sets the cause for which the job ends from now on.
    void set_cause(Failure cause) { cause_ = std::move(cause); }
    // Replaces the cause of a round that ends to let a node in: if the job ends now, it ends for `cause`.
    void replace_resize(const Failure& cause);

    // Notes a node's first failure. Returns it with what else is known of it.
    Failure tell(const JobNode& node, Failure failure);
    // Stops the nodes' workers. No node is awaited where all are lost: see has_ended().
    Messages stop(Failure cause, Roster& roster, TimePoint now, bool is_awaited = false);
    bool has_ended() const { return awaited_ == 0; }
    // Notes that a worker ends before the first failure was told. Returns the news of its death for the other
    // agents.
    Messages suspect(const JobNode& node, const WorkerDying& dying, const JobNodes& nodes);
    // Notes that a worker ends after the first failure was told.
    void contend(const JobNode& node, const ControlMessage& message);
    // Finds the first failure of all, once all have told theirs.
    void find_cause(const JobNodes& nodes);

    // Notes that the node's agent stops its workers by itself.
    void note_lease_over(NodeRun& run) const { run.gave_up = true; }
    // Returns true if it was the last node that was awaited.
    bool node_succeeded(NodeRun& run);
    // Returns true if it was the last node that was awaited. `gone`: nullptr for a node that was lost.
    bool node_gone(const JobNode& node, NodeRun& run, const WorkersGone* gone);
    void keep_ends(const JobNode& node, NodeRun& run, const RankEnds& ends) const;

    // Returns true for a signal that is news to the other agents.
    bool note_signal(std::uint64_t from, const NoticeSignal& notice, TimePoint now);

    // Notes for --exit-wait that a rank has ended with 0; after a while the nodes are asked which ranks still
    // run.
    void rank_succeeded(int rank, TimePoint now) { exit_wait_.ended(rank, now); }
    std::optional<TimePoint> exit_wait_deadline() const { return exit_wait_.deadline(); }
    void begin_exit_wait_again(TimePoint now) { exit_wait_.begin_again(now); }
    bool is_exit_wait_due(TimePoint now) const { return exit_wait_.is_due(now); }
    bool asks_who_runs() const { return exit_wait_.is_asking(); }
    Messages ask_who_runs(const JobNodes& nodes, TimePoint now);
    // Returns true if it was the last answer.
    bool note_running(const JobNode& node, const StillRunning& running);
    // Returns the line for the user; nothing if all ranks have ended.
    std::optional<std::string> end_exit_wait(const JobNodes& nodes);
    // Returns the node of the first rank that --exit-wait ends; nothing if it ends none.
    std::optional<int> overdue_node() const;
    Failure overdue_failure(const JobNode& node) const;

  private:
    bool count_down(NodeRun& run);

    int number_ = 0;
    bool has_run_ = false;
    std::size_t awaited_ = 0;  // nodes with workers that run or, while the round stops, are not gone
    TimePoint start_;
    std::chrono::milliseconds min_uptime_;
    std::chrono::milliseconds uptime_{0};  // until its first failure
    bool progressed_ = false;
    bool requeue_ = false;   // the workers were sent a signal for that
    FirstFailure failures_;  // each node's
    std::optional<Failure> cause_;
    std::vector<RanksDoing> others_;  // of all nodes, see WorkersGone
    std::vector<RanksDoing> left_;
    std::size_t deaths_told_ = 0;  // messages
    ExitWait exit_wait_;
    SignalNotices signals_;  // that the workers were sent
};

// Returns the failure that WorkerFailed or AgentSignalled tells of; without a message the loss of the node.
Failure failure_of(const JobNode& node, const ControlMessage* message, const HeartbeatTerms& heartbeats);
// Returns the failure as one of the node that has its rank; as it is where there is none.
Failure placed_by_rank(Failure failure, const JobNodes& nodes);

}  // namespace job
}  // namespace ddprun
