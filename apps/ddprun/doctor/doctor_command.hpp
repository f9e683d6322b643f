// `ddprun doctor`, and the part of it that a launch does first with --check.
#pragma once

#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/doctor/node_report.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {

// What `ddprun doctor` ends with where it has found a problem; otherwise 0, or kExitUsage.
inline constexpr int kExitProblem = 1;

// Whether these words, of a launcher that is called so, are of that command: the first is `doctor`. Where the launcher
// stands in torchrun's place a program may be called so, as one may by ./doctor or by -- doctor. Pure.
bool is_doctor_command(const std::vector<std::string>& words, const std::string& called);

// `words` begins with the command's name. Looks at this node and prints what it has found. Returns the exit code;
// throws UsageError.
int run_doctor(const std::vector<std::string>& words, const Environment& environment);

// What is quick to see of this node, where this launch is about to start: neither names nor Python are asked for. The
// limit of open files is still that which the launcher was given.
NodeReport check_node(const LaunchOptions& options);

}  // namespace ddprun
