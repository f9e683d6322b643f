// A RankSet says which ranks an option is about, `0,8-15` or `*`. Pure values, used wherever a flag names
// ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace launch {

class RankSet {
  public:
    RankSet() = default;  // no rank at all
    static RankSet all();

    bool contains(int rank) const;

    // Returns the first number or range, as text, that names a rank beyond `count` ranks (0 to count - 1).
    // all() names no rank in particular, so it has none.
    std::optional<std::string> beyond(int count) const;

    bool operator==(const RankSet&) const = default;

  private:
    friend std::variant<RankSet, std::string> parse_rank_set(std::string_view text);

    std::vector<NumberSpan> spans_;  // as they were written
};

// kMaxRankNumber: the largest number taken; a larger one is a typing error.
inline constexpr int kMaxRankNumber = 99'999'999;

// Reads `*`, or numbers and ranges FIRST-LAST separated by commas. Blanks around them do not matter, and
// ranges may overlap. Otherwise returns what is wrong, in words that go behind the flag and its value ("'8-x'
// is no number and no range").
std::variant<RankSet, std::string> parse_rank_set(std::string_view text);

}  // namespace launch
}  // namespace ddprun
