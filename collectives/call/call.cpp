#include "collectives/call/call.hpp"

#include <fmt/core.h>

#include <charconv>

namespace ddprun {
inline namespace detail {

std::string describe(const Call& call) {
    const OperationTraits& traits = traits_of(call.operation);
    if (call.operation == Operation::none || call.operation == Operation::join)
        return std::string(traits.name);
    if (call.operation == Operation::group) return fmt::format("group of {}", call.count);
    if (call.operation == Operation::parts)
        return fmt::format("{}(by parts) as call {}", name_of(call), call.sequence);
    std::string what = traits.reduces ? fmt::format("{}, ", name_of(call.reduce)) : "";
    if (call.operation != Operation::barrier && call.operation != Operation::split) {
        what += fmt::format("{} {}", call.count, name_of(call.type));
        if (call.compression != Compression::none)
            what += fmt::format(" sent as {}", name_of(call.compression));
    }
    if ((traits.has_root || traits.point_to_point) && call.root >= 0)
        what += fmt::format(" {} rank {}", traits.to_root ? "to" : "from", call.root);
    const std::string text = fmt::format("{}({})", traits.name, what);
    return traits.point_to_point ? text : fmt::format("{} as call {}", text, call.sequence);
}

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

}  // namespace detail
}  // namespace ddprun
