// The options by which ddprun starts agents on other hosts, and those about the workers' variables.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/option_row.hpp"
#include "apps/ddprun/command_line.hpp"

namespace ddprun::inline app {

OptionGroup start_rows(CommandLine& line);
OptionGroup variable_rows(CommandLine& line);

// The words without those that only a starter has a use for.
std::vector<std::string> without_start_words(const std::vector<std::string>& words);

}  // namespace ddprun::inline app
