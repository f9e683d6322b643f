#include "collectives/call/rank_list.hpp"

#include <fmt/core.h>

#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline detail {

std::string list_of_ranks(const std::vector<int>& ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size() && i < kMaxRanksInText; ++i) {
        text += fmt::format("{}{}", i > 0 ? ", " : "", ranks[i]);
    }
    if (ranks.size() > kMaxRanksInText) text += fmt::format(" and {} more", ranks.size() - kMaxRanksInText);
    return text;
}

std::string encode_ranks(const std::vector<int>& ranks) {
    std::string text;
    for (const int rank : ranks) {
        text += fmt::format("{}{}", text.empty() ? "" : ",", rank);
    }
    return text;
}

std::optional<std::vector<int>> decode_ranks(std::string_view text) {
    std::vector<int> ranks;
    if (text.empty()) return ranks;
    for (const std::string_view part : split_at(text, ',')) {
        const auto rank = whole_number<int>(part, 0);
        if (!rank) return std::nullopt;
        ranks.push_back(*rank);
    }
    return ranks;
}

}  // namespace ddprun::inline detail
