// The command line of ddpctl: words in, a Command out. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::inline app {

struct ListCommand {
    bool json = false;
};
struct StatusCommand {
    std::string id;
    bool json = false;
};
struct LogsCommand {
    std::string id;
    bool follow = false;
    std::optional<std::uint64_t> tail;  // so many last lines instead of all
};
struct AttachCommand {
    std::string id;
};
struct KillCommand {
    std::string id;
    int signal = 0;
    bool wait = true;
};
// --help and --version: print this and end with 0.
struct ShowCommand {
    std::string text;
};

using ControlCommand =
    std::variant<ListCommand, StatusCommand, LogsCommand, AttachCommand, KillCommand, ShowCommand>;

// `words` without the program's own name. Throws UsageError (apps/cli/option_values.hpp).
ControlCommand parse_control_command(std::vector<std::string> words);

}  // namespace ddprun::inline app
