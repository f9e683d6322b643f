// How the ranks besides the first failure ended, in as few lines as are left for it. Pure; part of the
// report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun::inline launch {

// At most `room` (at least 1) lines about Finish::others and the counts beside it: one line for each rank if
// they fit, else one for all ranks that ended alike, and in the last one the number of those that are not
// listed.
std::vector<std::string> end_lines(const Finish& finish, std::size_t room);

// "rank 3", "ranks 0-2,5".
std::string ranks_text(std::vector<int> ranks);

// "node 1 (gpu07)".
std::string shown_node(int node_rank, const std::string& host);

// "rank 5 (local rank 1) on node 1 (gpu07), pid 4242", of a Failure or a RankEnd; without a pid that is 0.
std::string shown_worker(const Failure& worker);
std::string shown_worker(const RankEnd& worker);

}  // namespace ddprun::inline launch
