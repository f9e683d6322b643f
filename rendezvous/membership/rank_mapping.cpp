#include "rendezvous/membership/rank_mapping.hpp"

#include <map>

namespace ddprun::inline job {

std::vector<NodeRanks> map_ranks(const std::vector<NodeShare>& nodes) {
    std::vector<NodeRanks> ranks;
    std::map<std::string, int> role_sizes;
    int world_size = 0;
    for (const NodeShare& node : nodes) {
        int& role_size = role_sizes[node.role];
        ranks.push_back({.base_rank = world_size, .role_base_rank = role_size});
        world_size += node.local_world_size;
        role_size += node.local_world_size;
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        ranks[i].world_size = world_size;
        ranks[i].role_world_size = role_sizes[nodes[i].role];
    }
    return ranks;
}

}  // namespace ddprun::inline job
