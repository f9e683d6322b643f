#include "apps/train_digits/agreement.hpp"

#include <algorithm>
#include <map>

namespace ddprun {

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
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < named; ++i) {
        const bool last = i + 1 == ranks.size();
        if (i > 0) text += last ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    if (named < ranks.size()) text += " and " + std::to_string(ranks.size() - named) + " more";
    return text;
}

}  // namespace ddprun
