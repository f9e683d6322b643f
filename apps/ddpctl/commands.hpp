// What ddpctl does: one function for each of its commands, over the jobs of a folder.
#pragma once

#include <filesystem>

#include "apps/ddpctl/command_line.hpp"

namespace ddprun::inline app {

// Carries the command out and returns ddpctl's exit code. Throws UsageError for an id that names no job, and
// Error where the system or the launcher refuses. `jobs` need not exist; empty: nowhere.
int run_control_command(const ControlCommand& command, const std::filesystem::path& jobs);

}  // namespace ddprun::inline app
