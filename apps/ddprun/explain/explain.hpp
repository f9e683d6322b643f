// --explain and --dry-run: looks at this machine, prints the plan and starts nothing.
#pragma once

#include <string>

#include "apps/ddprun/command_line.hpp"
#include "apps/ddprun/job_start.hpp"

namespace ddprun::inline app {

// The launcher's exit code. `called` as in node_facts.hpp; `secret`: what DDPRUN_SECRET held. Where there is no job, what is known is printed before UsageError
// says why.
int explain_launch(const CommandLine& said, const std::string& called, const std::string& secret);

// The map of --dry-run, of a launch that is resolved.
int show_dry_run(const LaunchOptions& options, bool as_json);

// Likewise, of one on several hosts.
int show_start(const CommandLine& line, const StarterOptions& options);

}  // namespace ddprun::inline app
