// What a job came to, from what is known of its nodes at the end of a round. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun::inline job {

// One node, as the coordinator knows it.
struct JobNode {
    Hello hello;  // its node_rank is that of the round
    std::uint64_t connection = 0;
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
    bool gave_up = false;  // it says that it stops its workers by itself
    bool ended = false;    // succeeded, while the round runs; gone, while it stops
    bool all_zero = false;
    bool is_gone = false;       // it said that nothing of this round's workers is left there
    int base_rank = 0;          // of this round, like the next
    std::vector<RankEnd> ends;  // of its workers
    int asked_epoch = 0;        // while a coordinator is chosen: the last that it was asked to follow
    bool follows = false;       // and does

    // Another round may be one with it.
    bool stays() const { return connected && !leaving && left_out.empty(); }
    bool has_rank(int rank) const { return rank >= base_rank && rank - base_rank < hello.local_world_size; }
};

using JobNodes = std::map<int, JobNode>;  // by node rank

// How the worker of this rank ended; lost if its node did not say. Nothing for a rank that is not there.
std::optional<RankEnd> end_of_rank(const JobNodes& nodes, int rank);

// The nodes' names.
std::vector<std::string> hosts_of(const JobNodes& nodes);

// Of all nodes' workers.
std::vector<RankEnd> all_ends(const JobNodes& nodes);

// But for the restarts, and why none followed. The workers besides the one that `cause` is about are counted
// by their manners; listed are those that did not succeed, those that failed by themselves first. `requeue`:
// the workers were sent a signal for that.
Finish summary_of(const JobNodes& nodes, const std::optional<Failure>& cause, bool requeue);

// Ends as messages that fit their frames.
std::vector<RankEnds> as_messages(int round, std::span<const RankEnd> ends);

}  // namespace ddprun::inline job
