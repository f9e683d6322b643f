// The options of ddprun, one row each. To add one: a row, a member of LaunchOptions (or of CommandLine, if it
// is not for the agent), and the code that uses it; the tables of the READMEs are printed by --print-flags.
#pragma once

#include <vector>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/command_line.hpp"

namespace ddprun::inline app {

// The rows put their values into `line`, which has to outlive them.
std::vector<OptionGroup> option_rows(CommandLine& line);

}  // namespace ddprun::inline app
