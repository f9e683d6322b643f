// Ranks as text. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline detail {

// More ranks than these are counted, not named.
inline constexpr std::size_t kMaxRanksInText = 16;

// For people: `3, 5, 8`; `0, 1, … and 4 more`.
std::string list_of_ranks(const std::vector<int>& ranks);

// For programs: `3,5,8`; nothing for no ranks.
std::string encode_ranks(const std::vector<int>& ranks);
// Nothing unless the text is such a list.
std::optional<std::vector<int>> decode_ranks(std::string_view text);

}  // namespace ddprun::inline detail
