// RankRange: neighbouring ranks as one, so that many fit a message and a line. Plain values, pure functions.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/job/number_limits.hpp"

namespace ddprun::inline job {

// Both ends are inside.
struct RankRange {
    int first = 0;
    int last = 0;
};
BOOST_DESCRIBE_STRUCT(RankRange, (), (first, last))
constexpr NumberRange range_of(Of<&RankRange::first>) { return kRankRange; }
constexpr NumberRange range_of(Of<&RankRange::last>) { return kRankRange; }
inline bool is_sound(const RankRange& range) { return range.first <= range.last; }

// In order, none touching another; ranks may come in any order and more than once.
std::vector<RankRange> ranges_of(std::vector<int> ranks);

// "0-2,4".
std::string to_text(const std::vector<RankRange>& ranges);

}  // namespace ddprun::inline job
