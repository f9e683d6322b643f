// Elasticity: by how many nodes a job may run, and when that changes. Plain values; node 0's count.
#pragma once

#include <chrono>
#include <optional>

#include "rendezvous/codec/description.hpp"

namespace ddprun::inline job {

// When a node that comes while workers run is let in.
enum class Resize {
    now,      // the round ends for it
    failure,  // when a round ends anyway
    never,    // only in the place of one that was lost
};
BOOST_DESCRIBE_ENUM(Resize, now, failure, never)

struct Elasticity {
    // Fewer than --nnodes: with so many the job begins, or goes on. Nothing: all of them.
    std::optional<int> min_nodes;
    int spares = 0;  // of all nodes: they wait until another one is lost
    // How long more nodes are awaited once the least are there, before the first round.
    std::chrono::milliseconds last_call{30'000};
    Resize resize = Resize::now;
    // A node whose workers were the culprit in so many rounds is left out where the job can do without it; 0: never.
    int exclude_after = 3;

    // Nodes may go and come without that being a failure.
    bool is_elastic() const { return min_nodes.has_value(); }
    int least(int nnodes) const { return min_nodes.value_or(nnodes); }
    // That run at the same time, at most.
    int seats(int nnodes) const { return nnodes - spares; }
};

}  // namespace ddprun::inline job
