// The command line of `ddprun doctor`, and the job that looks at several nodes: one worker on each, which is this very program
// in its hidden role (doctor_node.hpp). So nodes are found, reached, and kept from strangers as for any other job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/start/starter.hpp"

namespace ddprun::inline app {

struct DoctorCall {
    bool json = false;
    std::string log_dir;                 // empty: not said
    std::vector<std::string> job_words;  // of a launch that finds the nodes; its program is put in later
    std::optional<std::string> show;     // --help and the like: print this and end with 0
};

// `words` begins with the command's name. Throws UsageError.
DoctorCall parse_doctor_call(const std::vector<std::string>& words, const Environment& environment);

// Takes the variables of those launch options out of this process's environment that have nothing to say about the nodes:
// no job of the user's is started here. While there are no other threads.
void forget_job_variables();

// The launch becomes that of the job above; of several nodes it begins also where some do not come. Pure, all three.
void become_doctors_job(const DoctorCall& call, CommandLine& line);
void become_doctors_job(const DoctorCall& call, StarterOptions& options);
// Whether a launch is that, also on a node that a relay has started.
bool is_doctors_job(const std::vector<std::string>& program);

}  // namespace ddprun::inline app
