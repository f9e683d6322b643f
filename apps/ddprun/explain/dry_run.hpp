// What --dry-run prints. Pure.
#pragma once

#include <string>

#include "launcher/agent/launch_options.hpp"

namespace ddprun::inline app {

// A line for each worker of this node: where it would run, and what. By rank where the node is alone; of several nodes
// none knows before they meet how many workers the others have.
std::string dry_run_text(const LaunchOptions& options, const std::string& host);

}  // namespace ddprun::inline app
