// Which hosts of a job's list have no node yet. Pure; the Coordinator asks while it waits.
#pragma once

#include <string>
#include <vector>

namespace ddprun::inline job {

// ListPosition says where a node's host stands in the list of `size` hosts that the node knows; another position: in none.
struct ListPosition {
    int position = 0;
    int size = 0;
};

// Those of the list, in its order, that nobody has; nothing where that is not certain: one of those there knows another
// list, or none, or there are more than `most` that may still come.
std::vector<std::string> absent_hosts(const std::vector<std::string>& hosts,
                                      const std::vector<ListPosition>& there, int most);

}  // namespace ddprun::inline job
