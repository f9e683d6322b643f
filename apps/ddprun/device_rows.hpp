// The rows of the options that say which GPUs and CPUs a worker has; see option_rows.hpp.
#pragma once

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/command_line.hpp"

namespace ddprun::inline app {

OptionGroup device_rows(CommandLine& line);

}  // namespace ddprun::inline app
