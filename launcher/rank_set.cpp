#include "launcher/rank_set.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "launcher/list_text.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

std::optional<int> parse_rank(std::string_view text) { return whole_number<int>(text, 0, kMaxRankNumber); }

std::optional<std::pair<int, int>> parse_range(std::string_view text) {
    const auto dash = text.find('-');
    const auto first = parse_rank(trimmed(text.substr(0, dash)));
    if (!first) return std::nullopt;
    if (dash == std::string_view::npos) return std::pair{*first, *first};
    const auto last = parse_rank(trimmed(text.substr(dash + 1)));
    if (!last) return std::nullopt;
    return std::pair{*first, *last};
}

}  // namespace

RankSet RankSet::all() {
    RankSet set;
    set.ranges_.emplace_back(0, kMaxRankNumber);
    return set;
}

bool RankSet::contains(int rank) const {
    return std::any_of(ranges_.begin(), ranges_.end(),
                       [rank](const auto& range) { return range.first <= rank && rank <= range.second; });
}

std::optional<std::string> RankSet::beyond(int count) const {
    if (*this == all()) return std::nullopt;
    for (const auto& [first, last] : ranges_) {
        if (last < count) continue;
        return first == last ? std::to_string(last) : fmt::format("{}-{}", first, last);
    }
    return std::nullopt;
}

std::variant<RankSet, std::string> parse_rank_set(std::string_view text) {
    if (trimmed(text) == "*") return RankSet::all();
    RankSet set;
    for (;;) {
        const auto comma = text.find(',');
        const auto part = trimmed(text.substr(0, comma));
        const auto range = parse_range(part);
        if (!range) return fmt::format("'{}' is no rank (0, 1, ...) and no range (8-15)", part);
        if (range->first > range->second) return fmt::format("the range '{}' is empty", part);
        set.ranges_.push_back(*range);
        if (comma == std::string_view::npos) return set;
        text.remove_prefix(comma + 1);
    }
}

}  // namespace ddprun::inline launch
