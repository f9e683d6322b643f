// Agreement: do all ranks hold the same value, and who does not. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddprun::inline app {

// values[r] is rank r's. The ranks whose value is not the most common one, ascending; among equally common
// values the one of the lowest rank counts. Empty when all agree.
std::vector<int> dissenting_ranks(std::span<const std::int64_t> values);

// "rank 3", "ranks 1 and 3", "ranks 1, 2 and 5"; from more than kNamedRanks the rest is counted:
// "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 92 more". `ranks` is not empty.
inline constexpr std::size_t kNamedRanks = 8;
std::string name_ranks(std::span<const int> ranks);

}  // namespace ddprun::inline app
