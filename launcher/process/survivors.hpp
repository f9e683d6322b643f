// Survivors: the processes of a job that are still there when it is over. Every process of a job carries the
// job's id in its environment, unless it took it out itself; so they can be counted whoever their parent is
// now.
//
// A look at all of /proc, blocking: some microseconds for each process of the machine. Environments of other
// users' processes cannot be read; the job's own are the launcher's user's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/process_table.hpp"

namespace ddprun {

// Living processes with DDPRUN_RUN_ID=<job_id> in the environment they were started with.
std::vector<Survivor> find_survivors(std::string_view job_id, const std::filesystem::path& proc = "/proc");

}  // namespace ddprun
