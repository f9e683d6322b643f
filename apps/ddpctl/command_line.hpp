// parse_control_command() is the command line of ddpctl: words in, a Command out. Pure.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "apps/ddpctl/command.hpp"

namespace ddprun {
inline namespace app {

// Returns the command with the values of its options; or a text that is to be printed (--help, --version).
// `words` are without the program's own name. Throws UsageError (apps/cli/option_values.hpp).
std::variant<std::unique_ptr<Command>, std::string> parse_control_command(std::vector<std::string> words);

}  // namespace app
}  // namespace ddprun
