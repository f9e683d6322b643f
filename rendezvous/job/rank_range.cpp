#include "rendezvous/job/rank_range.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ddprun::inline job {

std::vector<RankRange> ranges_of(std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    std::vector<RankRange> ranges;
    for (const int rank : ranks) {
        if (ranges.empty() || rank > ranges.back().last + 1) ranges.push_back({rank, rank});
        ranges.back().last = rank;
    }
    return ranges;
}

std::string to_text(const std::vector<RankRange>& ranges) {
    std::string text;
    for (const RankRange& range : ranges) {
        text += fmt::format("{}{}", text.empty() ? "" : ",", range.first);
        if (range.last != range.first) text += fmt::format("-{}", range.last);
    }
    return text;
}

}  // namespace ddprun::inline job
