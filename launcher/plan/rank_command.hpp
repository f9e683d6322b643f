// A RankCommand is a command for some of the job's ranks: RANKS:COMMAND, as --wrap and --program have it.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/rank_set.hpp"

namespace ddprun {
inline namespace launch {

// Cuts a text into words as a POSIX shell does, without anything that a shell would expand. Words are
// separated by blanks, tabs and newlines. '...' is taken as it is. Within "..." a backslash stands for the
// next character if that is one of \ " $ ` or a newline (which goes). Outside quotes it does so for any
// character. "" is an empty word. No variables, patterns, comments or operators: these characters stand for
// themselves. Else returns what is wrong: a quote that is not closed, or a backslash at the end.
std::variant<std::vector<std::string>, std::string> split_shell_words(std::string_view text);

// Joins the words as a shell, and split_shell_words(), take them: in '...' where they need it, with blanks
// between.
std::string join_shell_words(const std::vector<std::string>& words);

struct RankCommand {
    RankSet ranks;
    bool local = false;              // `ranks` are local ones
    std::vector<std::string> words;  // the command, never empty, with its macros

    bool names(int rank, int local_rank) const { return ranks.contains(local ? local_rank : rank); }
};

// Reads RANKS:COMMAND. RANKS is what parse_rank_set takes: global ranks, or local ones behind `local=`. The
// command is cut into words as split_shell_words does. Else returns one line that names the flag and its
// value; `example` is one of the flag's values.
std::variant<RankCommand, std::string> parse_rank_command(std::string_view flag, std::string_view value,
                                                          std::string_view example);

// A Wrap is the value of --wrap: a command (gdb, nsys, valgrind) in front of what the named ranks run.
using Wrap = RankCommand;

// WrapPlace is the worker that runs the argv.
struct WrapPlace {
    int rank = 0;
    int local_rank = 0;
    std::string host;
};

// Reads a Wrap as parse_rank_command does.
std::variant<Wrap, std::string> parse_wrap(std::string_view value);

// Returns `argv` with the commands of all wraps that name this worker in front, the first wrap outermost. In
// a command's words %r becomes the rank, %l the local rank, %h the host and %% a single %. Any other % stays,
// since the command may have macros of its own.
std::vector<std::string> wrapped_argv(const std::vector<Wrap>& wraps, std::vector<std::string> argv,
                                      const WrapPlace& place);

}  // namespace launch
}  // namespace ddprun
