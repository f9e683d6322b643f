// Survivors: the processes of a job that are still there when it is over, for the case that the sweep at the
// end could not prove that there are none (SweepResult): something does not end even by SIGKILL, or children
// that the launcher had before stand in the way of the proof. Every process of a job carries the job's id in
// its environment, unless it took it out itself; so they can be counted under any parent. What
// another service has started for a worker (a unit of systemd, a container) is that service's to end.
//
// A look at all of /proc, blocking. Environments of other users' processes cannot be read; the job's own are
// the launcher's user's, and younger than the launcher. No other's environment is opened.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process/process_table.hpp"

namespace ddprun::inline launch {

// Living processes with DDPRUN_RUN_ID=<job_id> in the environment they were started with, of those that were
// started at `since` (ProcessStat::start_time) or later.
std::vector<Survivor> find_survivors(std::string_view job_id, std::uint64_t since = 0,
                                     const std::filesystem::path& proc = "/proc");

}  // namespace ddprun::inline launch
