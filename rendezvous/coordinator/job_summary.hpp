// summary_of() sums up what a job came to, from what is known of its nodes (JobNode) at the end of a round.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace job {

// NodeRun: what a node's workers have done in the current round. Only the Round writes it, once the node is
// seated.
struct NodeRun {
    int base_rank = 0;   // the rank of the node's first worker
    bool ended = false;  // all have succeeded, while the round runs; all are gone, while it stops
    bool all_zero = false;
    bool is_gone = false;  // the agent said that nothing of the workers is left there
    bool gave_up = false;  // the agent said that it stops its workers by itself
    std::vector<RankEnd> ends;
};

// JobNode: one node, as the coordinator knows it. Only the Roster writes it, but for its run.
struct JobNode {
    Hello hello;  // its node_rank is that of the round
    std::uint64_t connection = 0;
    int key = 0;                 // in the Roster's map; once nodes are seated their rank
    std::optional<int> claim;    // the number that its user gave it
    bool hosts = false;          // the coordinator
    int place = 0;               // see Seating
    std::optional<int> leaving;  // its agent was sent this signal, and takes part in no other round
    std::string left_out;        // why it takes part in no other round, though it could; empty: it does
    bool is_compared = false;    // see NodeComparison
    bool connected = true;
    bool is_dead = false;  // not connected any more because its agent is dead
    bool silent = false;   // not connected any more because nothing was heard of it
    bool lied = false;     // not connected any more because it said what cannot be true
    NodeRun run;

    // Returns whether another round may include the node.
    bool stays() const { return connected && !leaving && left_out.empty(); }
    bool has_rank(int rank) const {
        return rank >= run.base_rank && rank - run.base_rank < hello.local_world_size;
    }
};

using JobNodes = std::map<int, JobNode>;  // by node rank

// Returns how the worker of this rank ended; `lost` if its node did not say. Nothing for a rank that is not
// there.
std::optional<RankEnd> end_of_rank(const JobNodes& nodes, int rank);

// Returns the nodes' names.
std::vector<std::string> hosts_of(const JobNodes& nodes);

// Returns the ends of all nodes' workers.
std::vector<RankEnd> all_ends(const JobNodes& nodes);

// Returns what the job came to, but for the restarts, and why none followed. All workers but the one that
// `cause` is about are counted by how they ended. The list has those that did not succeed, with those that
// failed by themselves in front. `requeue`: the workers were sent a signal after which the job is to be run
// again (NoticeSignal::requeue).
Finish summary_of(const JobNodes& nodes, const std::optional<Failure>& cause, bool requeue);

// Returns what a node's agent answers to WhoRuns.
StillRunning still_running_of(int round, const std::vector<WorkerStatus>& workers);

// Returns the ends as messages that fit their frames.
std::vector<RankEnds> as_messages(int round, std::span<const RankEnd> ends);

// Outgoing: one message of the coordinator's to one agent. The four values of the coordinator return what is
// to be sent.
struct Outgoing {
    std::uint64_t to = 0;  // the connection of the agent
    ControlMessage message;
    bool close_after = false;  // the conversation is over once this is written
    // ends: how all ranks have ended, which goes before the message: one list for all agents that are told,
    // since those of a large job are many bytes.
    SharedEnds ends = nullptr;
};

using Messages = std::vector<Outgoing>;

// Returns questions of heartbeats as messages, by the connections of the agents.
inline Messages as_messages(const std::vector<std::pair<std::uint64_t, Heartbeat>>& questions) {
    Messages out;
    for (const auto& [agent, question] : questions) out.push_back({agent, question});
    return out;
}

// Addresses `message` to all of these nodes (a map of JobNode) that are connected.
template <typename Nodes>
Messages to_all(const Nodes& nodes, const ControlMessage& message, bool close_after = false) {
    Messages out;
    for (const auto& [key, node] : nodes) {
        if (node.connected) out.push_back({node.connection, message, close_after});
    }
    return out;
}

// Addresses `message` to all nodes, and to those that wait for another round.
template <typename Nodes, typename Queue>
Messages to_everybody(const Nodes& nodes, const Queue& queue, const ControlMessage& message,
                      bool close_after = false) {
    Messages out = to_all(nodes, message, close_after);
    for (Outgoing& more : to_all(queue, message, close_after)) out.push_back(std::move(more));
    return out;
}

}  // namespace job
}  // namespace ddprun
