// RankRange: neighbouring ranks as one, so that many fit a message and a line. Plain values, pure functions.
#pragma once

#include <utility>
#include <vector>

#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/system/number_text.hpp"

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

// Joins neighbours; the ranks may come in any order and more than once.
inline std::vector<RankRange> ranges_of(std::vector<int> ranks) {
    return spans_of<RankRange>(std::move(ranks));
}

}  // namespace ddprun::inline job
