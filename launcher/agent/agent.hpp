// run_agent: runs this node's part of a job, from joining to the exit code.
//
// Feeds events (coordinator, workers, signals, timers) to the AgentMachine and carries its actions out, all on the
// calling thread, which is main's. Node 0's agent also hosts the RendezvousServer and leaves last.
#pragma once

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"

namespace ddprun::inline launch {

// Blocks until the job is over and nothing of this node's part is left; returns the launcher's exit code.
// Throws system_error if the port cannot be had; then nothing was started.
int run_agent(LaunchOptions options, LauncherLog& log, const Features& features = {});

}  // namespace ddprun::inline launch
