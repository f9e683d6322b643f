// `ddprun doctor`, and the part of it that a launch does first with --check.
#pragma once

#include <string>
#include <vector>

#include "apps/ddprun/doctor/doctor_call.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/doctor/look_around.hpp"
#include "launcher/doctor/node_report.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline app {

// What `ddprun doctor` ends with where it has found a problem; otherwise 0, or kExitUsage.
inline constexpr int kExitProblem = 1;

// Whether these words, of a launcher that is called so, are of that command: the first is `doctor`. Where the launcher
// stands in torchrun's place a program may be called so, as one may by ./doctor or by -- doctor. Pure.
bool is_doctor_command(const std::vector<std::string>& words, const std::string& called);

// What is looked at of this node.
LookRequest doctor_request(const Environment& environment, const std::string& log_dir);

// Looks at this node alone and prints what it has found. Returns the exit code.
int run_doctor(const DoctorCall& call, const Environment& environment);

// What is quick to see of this node, where this launch is about to start: neither names nor Python are asked for. The
// limit of open files is still that which the launcher was given.
NodeReport check_node(const LaunchOptions& options);

}  // namespace ddprun::inline app
