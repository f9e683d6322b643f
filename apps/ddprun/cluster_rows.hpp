// The rows of the options that say what is believed of a cluster's environment; see option_rows.hpp.
#pragma once

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/command_line.hpp"

namespace ddprun::inline app {

OptionGroup cluster_rows(CommandLine& line);

}  // namespace ddprun::inline app
