// Roster: the nodes of a job: which are here, which are refused, which wait, and in which order they stand.
// Pure; the Coordinator owns it and calls it in the order of what happens.
//
//   while nodes gather   admit() until gathers_all(), then end_gathering() and seat()
//   between rounds       lose(), note_leaving(), leave_out(), and seat() again with newcomers from the queue
//
// The roster decides nothing about failures, restarts or other coordinators. The messages to be sent are
// returned.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/coordinator_options.hpp"
#include "rendezvous/coordinator/coordinator_table.hpp"
#include "rendezvous/coordinator/job_summary.hpp"
#include "rendezvous/coordinator/node_comparison.hpp"
#include "rendezvous/membership/seating.hpp"

namespace ddprun {
inline namespace job {

// NodeQueue: nodes that wait for another round, by their connections, in the order of their arrival.
using NodeQueue = std::map<std::uint64_t, JobNode>;

// FollowerSeat: the seat of an agent that follows another coordinator: the rank that it had in the round that
// has ended.
struct FollowerSeat {
    int rank = 0;
    int key = 0;  // in the Roster's map until now
    int place = 0;
};

class Roster {
  public:
    using ConnectionId = std::uint64_t;
    using TimePoint = std::chrono::steady_clock::time_point;

    // kFirstStatusDelay: after this time a waiting agent is first told which nodes are missing.
    static constexpr std::chrono::milliseconds kFirstStatusDelay{3'000};
    // kStatusPeriod: on changes the agent is told no more often than this.
    static constexpr std::chrono::milliseconds kStatusPeriod{1'000};
    // kMaxRefusalsTold: how many different refusals node 0's agent hears of.
    static constexpr std::size_t kMaxRefusalsTold = 32;
    // kUnfitTime: once it is known that there can be no job, how long nodes that have yet to come are
    // awaited, to be told why.
    static constexpr std::chrono::seconds kUnfitTime{10};

    Roster(SharedOptions options, TimePoint now);

    // Returns the nodes by rank. Until all are there, a node without a number has a key that is no node's
    // number.
    const JobNodes& nodes() const { return nodes_; }
    // Returns the node on this connection; nullptr where there is none.
    const JobNode* find(ConnectionId connection) const;
    // Returns the node that hosts the coordinator, while it is connected.
    const JobNode* host() const;
    std::optional<int> host_rank() const { return host_; }
    // Returns the part of a node that the Round writes.
    NodeRun& run_of(const JobNode& node) { return nodes_.at(node.key).run; }
    // Returns whether the agent on this connection was told how the job has ended for it.
    bool has_released(ConnectionId connection) const { return released_.contains(connection); }
    bool is_empty() const { return nodes_by_connection_.empty() && released_.empty(); }

    // Makes of `text` a message to the agent of the host's user, which shows it.
    Messages remark(std::string text) const;

    // Returns nothing if the agent may take part. With `may_inherit` it may come from the machine of the node
    // that has its number: the loss of that node may not have been noticed yet.
    std::optional<Refused> reason_against(const Hello& hello, bool may_inherit = false) const;
    // Returns nothing if the node is fit, or hosts the job, which cannot do without it.
    std::optional<Refused> learn_fitness(const Hello& hello);
    // Returns why there can be no job, so far.
    std::optional<Refused> unfit_fault() const { return unfit_.fault(options_->nnodes, options_->least()); }
    // Returns why --strict-env does not let this node in: it differs from the others.
    std::optional<Refused> strict_reason_against(const Hello& hello) const;
    Messages refuse(ConnectionId from, const Hello& hello, const Refused& refused);

    // Returns the node of the same agent, which has come before on another connection. Used while nodes
    // gather.
    const JobNode* newcomer_before(const Hello& hello) const;
    // Returns whether there is a seat; one is kept for the host's own agent.
    bool has_seat_for(const Hello& hello) const;
    Messages admit(ConnectionId from, const Hello& hello);
    // Returns whether all nodes that can come are there. Else it limits how long some of them are waited for.
    bool gathers_all(TimePoint now);
    // Keeps a last call open until then, since the nodes are being asked whether they are there.
    void await_answers(TimePoint until) {
        if (last_call_end_) last_call_end_ = std::max(*last_call_end_, until);
    }
    // Gives the nodes their places.
    void end_gathering();
    // Returns why the nodes that are seated cannot run this job together.
    std::optional<Refused> fault_of_nodes() const;
    // Forgets a node that has left before the job began.
    void forget(const JobNode& node, TimePoint now);

    // Begins to await nodes anew, for a whole join timeout.
    void await(TimePoint now);
    // Plans to tell the nodes which others are missing, as soon as may be. With `replaces` the new time
    // counts, else the earlier one.
    void plan_status(TimePoint now, bool replaces);
    TimePoint deadline() const;
    // Returns join_timed_out, last_call_over or status_due; nothing while none is.
    std::optional<CoordinatorEvent> due(TimePoint now) const;
    Waiting waiting(std::size_t present, const NodeQueue& queue) const;
    Messages tell_waiting(const Waiting& waiting, TimePoint now);
    // Ends the status messages to waiting agents, since a round begins.
    void round_begins();

    // Loss: why a node's connection has ended.
    enum class Loss : std::uint8_t { closed, silent, lied };
    void lose(const JobNode& node, Loss loss, bool is_dead);
    void note_leaving(const JobNode& node, int signal) { nodes_.at(node.key).leaving = signal; }
    void leave_out(const JobNode& node, std::string why) { nodes_.at(node.key).left_out = std::move(why); }
    // Releases a node: its agent was told how the job has ended for it, or says goodbye.
    void release(const JobNode& node, bool awaits_goodbye);
    void forget_released(ConnectionId connection) { released_.erase(connection); }

    // Returns how many nodes may come from the queue into the next round.
    std::size_t free_seats() const;
    // Seats the nodes of the next round; those of the last one keep their order. Tells the host in what they
    // differ.
    Messages seat(std::vector<JobNode> newcomers);

    // Adds an agent that comes while another coordinator is chosen.
    const JobNode& add_follower(ConnectionId from, const Hello& hello);
    void remove_follower(const JobNode& node);
    // Seats the followers, and the other members of `list` as lost. Returns the connections of nodes that do
    // not follow, which are removed.
    std::vector<ConnectionId> take_over(const std::vector<FollowerSeat>& seats, const MemberList& list);

  private:
    using Newcomer = std::tuple<std::string, std::int64_t, std::uint64_t, int>;
    const JobNode* holder_of(int number) const;

    SharedOptions options_;
    JobNodes nodes_;
    std::map<ConnectionId, int> nodes_by_connection_;
    std::map<Newcomer, int> newcomers_;  // while nodes gather; their keys
    int unnumbered_ = 0;                 // nodes that have come without a number
    bool is_seated_ = false;             // the nodes stand under their ranks
    std::optional<int> host_;            // its key in nodes_
    std::set<ConnectionId> released_;
    Seating seating_;
    UnfitNodes unfit_;
    NodeComparison comparison_;
    std::vector<std::string> differences_;  // between the nodes, once all have come
    std::set<std::string> refusals_told_;
    std::vector<PeerRefused> refusals_untold_;  // while node 0's agent is not there
    TimePoint join_deadline_;
    std::optional<TimePoint> last_call_end_;
    std::optional<TimePoint> status_deadline_;
    std::optional<TimePoint> last_status_;
};

// kJustNow: a node that gave a sign so recently is there; others are asked before the first round.
inline constexpr std::chrono::milliseconds kJustNow{50};
// Returns whether all nodes are there: each has given a sign just now or, once all were asked (`by_answers`),
// an answer.
bool are_heard(const JobNodes& nodes, const HeartbeatWatch& heartbeats, bool by_answers,
               Roster::TimePoint now);

}  // namespace job
}  // namespace ddprun
