// Ranks from worker counts: running sums of the nodes' worker counts in group-rank order. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::inline job {

// What one node brings into a round.
struct NodeShare {
    int local_world_size = 1;
    std::string role = "default";
};

// Where one node's workers stand in the round.
struct NodeRanks {
    int base_rank = 0;       // global rank of its first worker
    int world_size = 0;      // workers of all nodes
    int role_base_rank = 0;  // rank of its first worker among the workers of its role
    int role_world_size = 0;

    bool operator==(const NodeRanks&) const = default;
};

// One entry for each node, in the order given (group rank).
std::vector<NodeRanks> map_ranks(const std::vector<NodeShare>& nodes);

}  // namespace ddprun::inline job
