// How the ranks besides the first failure ended, in as few lines as are left for it. Pure; part of the
// report.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/coordinator/control_message.hpp"

namespace ddprun {

// At most `room` (at least 1) lines about Finish::others and the counts beside it: one line for each rank if
// they fit, else one for all ranks that ended alike, and in the last one the number of those that are not
// listed.
std::vector<std::string> end_lines(const Finish& finish, std::size_t room);

// "rank 3", "ranks 0-2,5".
std::string ranks_text(std::vector<int> ranks);

// "failed too", "stopped by ddprun", "lost", "succeeded".
std::string manner_text(RankEnd::Manner manner);

}  // namespace ddprun
