// The rows of the options that say what a worker runs, and of those by which ddprun does as torchrun; see option_rows.hpp.
#pragma once

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/command_line.hpp"

namespace ddprun::inline app {

OptionGroup program_rows(CommandLine& line);
OptionGroup torchrun_rows(CommandLine& line);

}  // namespace ddprun::inline app
