// RANKS:COMMAND, a command for some of the job's ranks, as --wrap and --program have it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/rank_set.hpp"

namespace ddprun::inline launch {

struct RankCommand {
    RankSet ranks;
    bool local = false;              // `ranks` are local ones
    std::vector<std::string> words;  // the command, never empty, with its macros

    bool names(int rank, int local_rank) const { return ranks.contains(local ? local_rank : rank); }
};

// RANKS is what parse_rank_set takes, by global rank, or `local=` and the same by local rank. The command is
// cut into words as split_shell_words does. Otherwise one line that names the flag and its value; `example` is one of
// the flag's values.
std::variant<RankCommand, std::string> parse_rank_command(std::string_view flag, std::string_view value,
                                                          std::string_view example);

}  // namespace ddprun::inline launch
