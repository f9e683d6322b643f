// RanksDoing: what some ranks did when the workers of a round were looked at for the last time, before they
// were told to end. Plain values, pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace job {

// RankRange is neighbouring ranks, both ends included, so that many fit a message and a line.
struct RankRange {
    int first = 0;
    int last = 0;
};
BOOST_DESCRIBE_STRUCT(RankRange, (), (first, last))
constexpr NumberRange range_of(Of<&RankRange::first>) { return kRankRange; }
constexpr NumberRange range_of(Of<&RankRange::last>) { return kRankRange; }
inline bool is_sound(const RankRange& range) { return range.first <= range.last; }

// Joins neighbouring ranks; the ranks may come in any order and more than once.
inline std::vector<RankRange> ranges_of(std::vector<int> ranks) {
    return spans_of<RankRange>(std::move(ranks));
}

inline constexpr std::size_t kMaxDoings = 8;
inline constexpr std::size_t kMaxDoingRanges = 64;
inline constexpr std::size_t kMaxDoingText = 240;

struct RanksDoing {
    enum class Manner {
        waited,  // for other ranks
        stood,   // at a line that is known, for something else
        other,   // computed, or stood where no line is known
    };
    BOOST_DESCRIBE_NESTED_ENUM(Manner, waited, stood, other)

    std::vector<RankRange> ranks;  // ascending
    Manner manner = Manner::other;
    std::string doing;  // "waited in all_reduce (train.py:140)", of one rank
};
BOOST_DESCRIBE_STRUCT(RanksDoing, (), (ranks, manner, doing))
constexpr std::size_t limit_of(Of<&RanksDoing::ranks>) { return kMaxDoingRanges; }
constexpr std::size_t limit_of(Of<&RanksDoing::doing>) { return kMaxDoingText; }

// Adds what other ranks did to `all`, which is in the order of manners; beyond the limits the last ones are
// left out.
void add_doings(std::vector<RanksDoing>& all, const std::vector<RanksDoing>& more);

// Returns `all`, or nothing where it tells nothing: none waited, and none stood at a line that is known.
std::vector<RanksDoing> worth_telling(std::vector<RanksDoing> all);

// Returns "rank 3 slept in next_batch (data.py:88); ranks 0-2 waited in all_reduce (train.py:140)", first
// those that did not wait; empty for none. `gave_up`: this rank has failed since it did not want to wait any
// longer; -1: none has.
std::string doings_text(const std::vector<RanksDoing>& all, int gave_up = -1);

}  // namespace job
}  // namespace ddprun
