#include "launcher/rank_set.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {

RankSet RankSet::all() {
    RankSet set;
    set.spans_.push_back({0, kMaxRankNumber});
    return set;
}

bool RankSet::contains(int rank) const {
    return std::any_of(spans_.begin(), spans_.end(),
                       [rank](const NumberSpan& span) { return span.first <= rank && rank <= span.last; });
}

std::optional<std::string> RankSet::beyond(int count) const {
    if (*this == all()) return std::nullopt;
    for (const NumberSpan& span : spans_) {
        if (span.last >= count) return number_set_text(std::vector{span});
    }
    return std::nullopt;
}

std::variant<RankSet, std::string> parse_rank_set(std::string_view text) {
    if (trimmed(text) == "*") return RankSet::all();
    auto spans = parse_number_set(text, 0, kMaxRankNumber, Blanks::around_numbers);
    if (const auto* wrong = std::get_if<WrongSpan>(&spans))
        return wrong->is_backward
                   ? fmt::format("the range '{}' is empty", wrong->text)
                   : fmt::format("'{}' is no rank (0, 1, ...) and no range (8-15)", wrong->text);
    RankSet set;
    set.spans_ = std::get<std::vector<NumberSpan>>(std::move(spans));
    return set;
}

}  // namespace launch
}  // namespace ddprun
