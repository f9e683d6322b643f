// What an agent does last: it finds out what is left of the job, shows why it ended, and writes that down.
// Blocking, on the agent's thread, once its workers are gone and their output is shown.
#pragma once

#include "launcher/agent/job_ending.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/watch/watchers.hpp"

namespace ddprun::inline launch {

// Returns what the launcher exits with. `workers` are those of the last round, nullptr if none began here.
int end_job(JobEnding ending, const LaunchOptions& options, const RoundWorkers* workers, LauncherLog& log,
            const Watchers& watchers);

}  // namespace ddprun::inline launch
