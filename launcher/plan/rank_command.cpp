#include "launcher/plan/rank_command.hpp"

#include <fmt/core.h>

#include <utility>

#include "launcher/plan/shell_words.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kLocal = "local=";

}  // namespace

std::variant<RankCommand, std::string> parse_rank_command(std::string_view flag, std::string_view value,
                                                          std::string_view example) {
    const auto refusal = [&](std::string_view why) { return fmt::format("{} '{}': {}", flag, value, why); };
    const auto colon = value.find(':');
    if (colon == std::string_view::npos)
        return refusal(fmt::format("RANKS:COMMAND is expected, for example {}", example));
    RankCommand command;
    std::string_view ranks = value.substr(0, colon);
    command.local = ranks.starts_with(kLocal);
    if (command.local) ranks.remove_prefix(kLocal.size());
    auto set = parse_rank_set(ranks);
    if (const auto* wrong = std::get_if<std::string>(&set)) return refusal(*wrong);
    command.ranks = std::get<RankSet>(std::move(set));
    auto words = split_shell_words(value.substr(colon + 1));
    if (const auto* wrong = std::get_if<std::string>(&words)) return refusal(*wrong);
    command.words = std::get<std::vector<std::string>>(std::move(words));
    if (command.words.empty() || command.words.front().empty())
        return refusal("no command follows the ranks");
    return command;
}

}  // namespace ddprun::inline launch
