// What an agent does last: it finds out what is left of the job, shows why it ended, and writes that down.
// Blocking, on the agent's thread, once its workers are gone and their output is shown.
#pragma once

#include "launcher/agent/agent_watcher.hpp"
#include "launcher/agent/job_ending.hpp"
#include "launcher/agent/round_workers.hpp"
#include "launcher/output/console.hpp"

namespace ddprun {

// Adds what this node can find out: survivors, logs, times, and which nodes nobody could ask. `workers` are
// those of the last round, nullptr if none began here.
void complete_ending(JobEnding& ending, const LaunchOptions& options, const RoundWorkers* workers);

// Says and writes it all; returns what the launcher exits with. `watcher` may be nullptr.
int show_ending(const JobEnding& ending, const LaunchOptions& options, const RoundWorkers* workers,
                Console& console, AgentWatcher* watcher);

}  // namespace ddprun
