// `ddprun doctor`: its command line, what it looks at, and the part of it that a launch does first with --check.
//
// Several nodes are looked at by a job: one worker on each, which is this very program in its hidden role (doctor_node.hpp).
// So nodes are found, reached, and kept from strangers as for any other job.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/doctor/look_around.hpp"
#include "launcher/doctor/node_report.hpp"
#include "launcher/start/starter.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline app {

// `ddprun doctor` ends with this where it has found a problem; otherwise with 0, or kExitUsage.
inline constexpr int kExitProblem = 1;

// The first word behind `doctor` where a node plays its part; users do not write it.
inline constexpr std::string_view kNodeRoleFlag = "--as-node";

// True if these words are of that command: the first is `doctor`. `called` is the name of the launcher: where it stands in
// torchrun's place, `doctor` is a program, as ./doctor and -- doctor always are. Pure.
bool is_doctor_command(const std::vector<std::string>& words, const std::string& called);
bool is_doctor_node(const std::vector<std::string>& words);

struct DoctorCall {
    bool json = false;
    std::string log_dir;                 // empty: not said
    std::vector<std::string> job_words;  // of a launch that finds the nodes; its program is put in later
    std::optional<std::string> show;     // --help and the like: print this and end with 0
};

// `words` begins with the command's name. Throws UsageError.
DoctorCall parse_doctor_call(const std::vector<std::string>& words, const Environment& environment);

// Takes the variables of those launch options out of this process's environment that have nothing to say about the nodes:
// no job of the user's is started here. Called while there are no other threads.
void forget_job_variables();

// The launch becomes that of the job above; of several nodes it begins also where some do not come. Pure, all three.
void become_doctors_job(const DoctorCall& call, CommandLine& line);
void become_doctors_job(const DoctorCall& call, StarterOptions& options);
// True for such a launch, also on a node that a relay has started.
bool is_doctors_job(const std::vector<std::string>& program);

// Says what doctor looks at on this node.
LookRequest doctor_request(const Environment& environment, const std::string& log_dir);

// Looks at this node alone and prints what it has found. Returns the exit code.
int run_doctor(const DoctorCall& call, const Environment& environment);

// Looks at what is quick to see of this node, where this launch is about to start: neither names nor Python are asked for.
// The limit of open files is still that which the launcher was given.
NodeReport check_node(const LaunchOptions& options);

}  // namespace ddprun::inline app
