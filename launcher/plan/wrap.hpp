// --wrap 'RANKS:command ...': a command (gdb, nsys, valgrind) in front of what the named ranks run. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/plan/rank_command.hpp"

namespace ddprun::inline launch {

using Wrap = RankCommand;

// The worker whose argv it is.
struct WrapPlace {
    int rank = 0;
    int local_rank = 0;
    std::string host;
};

// As parse_rank_command has it.
std::variant<Wrap, std::string> parse_wrap(std::string_view value);

// `argv` with the commands of all wraps that name this worker in front, the first wrap outermost. In the
// words of the command %r becomes the rank, %l the local rank, %h the host and %% a single %; any other %
// stays, since the command may have macros of its own.
std::vector<std::string> wrapped_argv(const std::vector<Wrap>& wraps, std::vector<std::string> argv,
                                      const WrapPlace& place);

}  // namespace ddprun::inline launch
