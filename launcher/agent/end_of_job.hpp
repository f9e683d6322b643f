// end_job is what an agent does last: it finds out what is left of the job, shows why the job ended, and
// writes that down.
#pragma once

#include "launcher/agent/feature.hpp"
#include "launcher/agent/job_ending.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/output/launcher_log.hpp"

namespace ddprun {
inline namespace launch {

// Returns what the launcher exits with. `workers` are those of the last round, nullptr if none began here.
// Blocks, on the agent's thread, once the workers are gone and their output is shown.
int end_job(JobEnding ending, const LaunchOptions& options, const RoundWorkers* workers, LauncherLog& log,
            const Features& features);

}  // namespace launch
}  // namespace ddprun
