// Round: what the workers of the current round do, from their start to the last one's end: who failed first,
// who has ended, who still runs, which signals they were sent. Pure; the Coordinator owns it and calls it in
// the order of what happens.
//
//   begin() ──► suspect(), exit wait, node_succeeded() … ──► all have ended with 0
//                   └─ tell() a failure, stop() ──► node_gone() for each node ──► find_cause()
//
// It writes each node's run (NodeRun) in the Roster, and decides nothing about what follows.
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
// who they are. Pure; the Coordinator feeds it and asks the nodes, since only these know who runs.
//
//   nobody ended ──ended──► waiting ──deadline, ask──► asking ──all answered, or deadline──► concluded
//
// A node that does not answer in time has said of none of its ranks that it ended: they count as running.

class ExitWait {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // How long the nodes may take to answer.
    static constexpr std::chrono::seconds kAnswerTimeout{5};
    // So many ranges of ranks that still run are named; the rest is counted.
    static constexpr std::size_t kMaxRangesShown = 16;

    // It never has a deadline without options.
    explicit ExitWait(std::optional<ExitWaitOptions> options) : options_(std::move(options)) {}

    void round_begins();

    // This rank ended with 0. Only the first one of the round counts.
    void ended(int rank, TimePoint now);

    // When somebody has to be asked, or is no longer waited for.
    std::optional<TimePoint> deadline() const { return deadline_; }
    bool is_due(TimePoint now) const { return deadline_ && now >= *deadline_; }
    // Nobody had time while the machine stood still: the whole of it begins anew.
    void begin_again(TimePoint now) {
        if (deadline_)
            deadline_ = now + (is_asking() ? std::chrono::milliseconds(kAnswerTimeout) : options_->wait);
    }

    // The nodes are asked now; by node rank all ranks that each of them has.
    void ask(std::map<int, StillRunning> all, TimePoint now);
    bool is_asking() const { return state_ == State::asking; }
    // True once nobody is left to answer. What a node says of ranks that are not its own is passed over.
    bool answer(int node_rank, const StillRunning& answer);

    // No answer is waited for any more. Nothing if all have ended after all; else the line for the user.
    std::optional<std::string> conclude();

    // Once concluded with a line: whether those ranks are to be ended, and by which cause, whose node has the
    // first of them. Its place (node, host, local rank) is the caller's to fill in.
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

// SignalNotices: signals for the workers, each counted once. What a scheduler sends to a whole job all of its
// agents get, and each of them tells the coordinator. Pure; the Coordinator feeds it.
class SignalNotices {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // Signals to several agents within this time are one signal: as long as a scheduler may take to reach all
    // nodes.
    static constexpr std::chrono::seconds kSameSignal{5};

    // True if the agent on this connection is the first one to tell of it. An agent that is sent a signal
    // again tells of another one; and each of these is told once.
    bool is_news(std::uint64_t connection, int signal, TimePoint now);

    void round_begins() { sent_.clear(); }

  private:
    struct Sent {
        TimePoint passed_on;
        int count = 0;  // passed on
        std::map<std::uint64_t, int>
            told;  // by whom, and how often; agents only, so at most one for each node
    };
    std::map<int, Sent> sent_;  // by the signal's number
};

class Round {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // Messages in a round by which agents hear of single deaths elsewhere; of more their workers hear when
    // connections close.
    static constexpr std::size_t kMaxDeathsTold = 100'000;

    explicit Round(const CoordinatorOptions& options);

    // The number of the round that runs or is about to.
    int number() const { return number_; }
    // That round has begun, here or under another coordinator.
    bool has_run() const { return has_run_; }
    // This ends the round, as far as is known.
    const std::optional<Failure>& cause() const { return cause_; }
    std::chrono::milliseconds uptime() const { return uptime_; }
    bool progressed() const { return progressed_; }
    bool is_requeued() const { return requeue_; }

    // The next round, with the nodes as they are seated: the ranks of each.
    std::vector<NodeRanks> begin(Roster& roster, TimePoint now);
    // The last round of another coordinator, which nobody may have heard of yet, while a new one is chosen.
    void follow(int number) { number_ = number; }
    // That round, which has ended for this cause.
    void take_over(Failure cause, const JobNodes& nodes);

    // The job ends for this instead, from now on.
    void set_cause(Failure cause) { cause_ = std::move(cause); }
    // The round ends for a node that comes; should the job end now, then for this.
    void replace_resize(const Failure& cause);

    // A node's first failure. Returns it with what else is known of it.
    Failure tell(const JobNode& node, Failure failure);
    // The nodes stop their workers. Nobody is awaited where all are lost: see has_ended().
    Messages stop(Failure cause, Roster& roster, TimePoint now, bool is_awaited = false);
    bool has_ended() const { return awaited_ == 0; }
    // A worker ends before the first failure was told; its death goes to the other agents.
    Messages suspect(const JobNode& node, const WorkerDying& dying, const JobNodes& nodes);
    // … or after that.
    void contend(const JobNode& node, const ControlMessage& message);
    // The first failure of all, once all have told theirs.
    void find_cause(const JobNodes& nodes);

    // Its agent says that it stops its workers by itself.
    void note_lease_over(NodeRun& run) const { run.gave_up = true; }
    // True if it was the last node that was awaited.
    bool node_succeeded(NodeRun& run);
    // `gone`: nullptr for a node that was lost.
    bool node_gone(const JobNode& node, NodeRun& run, const WorkersGone* gone);
    void keep_ends(const JobNode& node, NodeRun& run, const RankEnds& ends) const;

    // True for a signal that is news to the other agents.
    bool note_signal(std::uint64_t from, const NoticeSignal& notice, TimePoint now);

    // --exit-wait: a rank has ended with 0; then the nodes are asked who still runs.
    void rank_succeeded(int rank, TimePoint now) { exit_wait_.ended(rank, now); }
    std::optional<TimePoint> exit_wait_deadline() const { return exit_wait_.deadline(); }
    void begin_exit_wait_again(TimePoint now) { exit_wait_.begin_again(now); }
    bool is_exit_wait_due(TimePoint now) const { return exit_wait_.is_due(now); }
    bool asks_who_runs() const { return exit_wait_.is_asking(); }
    Messages ask_who_runs(const JobNodes& nodes, TimePoint now);
    // True if it was the last answer.
    bool note_running(const JobNode& node, const StillRunning& running);
    // The line for the user; nothing if all have ended.
    std::optional<std::string> end_exit_wait(const JobNodes& nodes);
    // The node that has the first rank that is to be ended for that; nothing if none is.
    std::optional<int> overdue_node() const;
    Failure overdue_failure(const JobNode& node) const;

  private:
    bool count_down(NodeRun& run);

    int number_ = 0;
    bool has_run_ = false;
    std::size_t awaited_ = 0;  // nodes whose workers have not ended, or are not gone while the round stops
    TimePoint start_;
    std::chrono::milliseconds min_uptime_;
    std::chrono::milliseconds uptime_{0};  // until its first failure
    bool progressed_ = false;
    bool requeue_ = false;   // the workers were sent a signal for that
    FirstFailure failures_;  // each node's
    std::optional<Failure> cause_;
    std::size_t deaths_told_ = 0;  // messages
    ExitWait exit_wait_;
    SignalNotices signals_;  // that the workers were sent
};

// The failure that WorkerFailed or AgentSignalled tells of; without a message the loss of the node.
Failure failure_of(const JobNode& node, const ControlMessage* message, const HeartbeatTerms& heartbeats);

}  // namespace job
}  // namespace ddprun
