// ExitWait: --exit-wait of a round. When some rank has ended with 0 and others go on, it says after a while who
// they are. Pure; the Coordinator feeds it and asks the nodes, since only these know who runs.
//
//   nobody ended ──ended──► waiting ──deadline, ask──► asking ──all answered, or deadline──► concluded
//
// A node that does not answer in time has said of none of its ranks that it ended: they count as running.
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
#include "rendezvous/job/agent_status.hpp"

namespace ddprun::inline job {

struct ExitWaitOptions {
    std::chrono::milliseconds wait{0};
    bool kill = false;  // then those that run are ended, as after a failure
    std::string text;   // as the user wrote it
};

// This is what a node's agent answers to WhoRuns.
StillRunning still_running_of(int round, const std::vector<WorkerStatus>& workers);

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

}  // namespace ddprun::inline job
