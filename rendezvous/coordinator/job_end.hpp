// How the workers besides the first failure ended, as Finish tells it. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rendezvous/coordinator/control_message.hpp"

namespace ddprun {

// Counts `ends` in Finish by their manners and lists those that did not succeed, those that failed by
// themselves first; without the worker that `cause` is about.
void add_ends(Finish& finish, const std::vector<RankEnd>& ends, const std::optional<Failure>& cause);

// As messages that fit their frames.
std::vector<RankEnds> as_messages(int round, std::span<const RankEnd> ends);

}  // namespace ddprun
