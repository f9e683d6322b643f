// `ddprun doctor`: which calls are its own, what it looks at, and the part of it that a launch does first with --check.
//
// Several nodes are looked at by a job: one worker on each, which is this very program in its hidden role (doctor_node.hpp).
// So nodes are found, reached, and kept from strangers as for any other job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/doctor/node_report.hpp"
#include "launcher/doctor/surroundings.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline app {

// `ddprun doctor` ends with this where it has found a problem; otherwise with 0, or kExitUsage.
inline constexpr int kExitProblem = 1;

// The program of such a job is this one, wherever it lies, or has lain: what a relay has shipped is removed by then.
inline constexpr const char* kThisProgram = "/proc/self/exe";
inline constexpr std::string_view kDoctorWord = "doctor";
// The first word behind `doctor` where a node plays its part; users do not write it.
inline constexpr std::string_view kNodeRoleFlag = "--as-node";

// True if these words are of that command: the first is `doctor`. `called` is the name of the launcher: where it stands in
// torchrun's place, `doctor` is a program, as ./doctor and -- doctor always are. Pure.
bool is_doctor_command(const std::vector<std::string>& words, const std::string& called);

// True for the launch of a job whose workers are doctors, also on a node that a relay has started. Pure.
bool is_doctors_job(const std::vector<std::string>& program);

// Says what doctor looks at on this node.
LookRequest doctor_request(const Environment& environment, const std::string& log_dir);

}  // namespace ddprun::inline app
