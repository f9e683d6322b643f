#include "apps/train_digits/agreement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace ddprun::inline app {

std::vector<int> dissenting_ranks(std::span<const std::int64_t> values) {
    std::map<std::int64_t, std::size_t> votes;
    for (const std::int64_t value : values) ++votes[value];
    const auto most_common = std::max_element(values.begin(), values.end(), [&](auto a, auto b) {
        return votes[a] < votes[b];  // max_element returns the first of equals: the lowest rank's
    });

    std::vector<int> dissenting;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank] != *most_common) dissenting.push_back(static_cast<int>(rank));
    }
    return dissenting;
}

std::string name_ranks(std::span<const int> ranks) {
    const std::size_t named = std::min(ranks.size(), kNamedRanks);
    std::string text = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < named; ++i)
        text += fmt::format("{} {}", i == 0 ? "" : i + 1 == ranks.size() ? " and" : ",", ranks[i]);
    return named < ranks.size() ? fmt::format("{} and {} more", text, ranks.size() - named) : text;
}

}  // namespace ddprun::inline app
