#include "collectives/call/rank_list.hpp"

#include <fmt/core.h>

#include <charconv>

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
    while (!text.empty()) {
        int rank = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
        if (error != std::errc() || rank < 0) return std::nullopt;
        ranks.push_back(rank);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        if (text.empty()) break;
        if (text.front() != ',' || text.size() == 1) return std::nullopt;
        text.remove_prefix(1);
    }
    return ranks;
}

}  // namespace ddprun::inline detail
