// Whose fault a first failure is, as far as the words of those that failed tell. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/worker/accusation.hpp"

namespace ddprun::inline job {

// How many of a worker's last lines count as its last words.
inline constexpr std::size_t kLastWords = 3;

// The rank that the failed worker blames: by its error file if it wrote one, else by its last words. Nobody
// where it did not end by itself: then its words do not tell why.
std::optional<Accusation> accusation_of(const Failure& failure);

// It returns what is known of a rank's end; nothing for a rank that is not there.
using EndOfRank = std::function<std::optional<RankEnd>(int rank)>;

// `first`, unless its words blame another rank. Then it is that one's own failure, if it is among `known` (or
// its end a failure) and is what it is blamed for, or is itself laid on a third rank, and so on. A rank that
// did not fail by itself becomes the first failure by the words of its accuser, see Failure::witness. Nobody
// is believed where they blame each other in a circle.
Failure culprit_of(const Failure& first, const std::vector<const Failure*>& known, const EndOfRank& end_of);

// The rank whose exit code and words a worker's failure has: its own, or the witness's.
inline int witness_of(const Failure& failure) { return failure.witness < 0 ? failure.rank : failure.witness; }

}  // namespace ddprun::inline job
