// The numbers of nodes whose users hand none out. Pure; the Coordinator asks when all nodes are there.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline job {

struct NodeClaim {
    std::optional<int> number;  // that its user gave it
    std::string host;
    bool hosts = false;         // the coordinator
    std::optional<int> listed;  // its position in the job's list of hosts
};

// The numbers of nodes, which are given in the order of their arrival and whose own numbers are different
// and within that range. Who has a number keeps it; the others take what is left: first the node that hosts the
// coordinator, then those of a list of hosts in its order, then in the natural order of their host names, then as they came.
std::vector<int> number_nodes(const std::vector<NodeClaim>& nodes);

// In which order nodes have their ranks that say something about it, as a switch's path: the indices of the texts in
// their natural order; who says nothing comes behind, and who says the same comes as it was given.
std::vector<std::size_t> order_ranks(const std::vector<std::string_view>& texts);

// Digits within a name count as numbers: node2 is before node10.
bool comes_before(std::string_view host, std::string_view other);

}  // namespace ddprun::inline job
