// run_agent: runs this node's part of a job, from joining to the exit code.
//
// Feeds events (coordinator, workers, signals, timers) to the AgentMachine and carries its actions out, all
// on the calling thread, which is main's. Node 0's agent also hosts the RendezvousServer and leaves last.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun {
inline namespace launch {

// RunnerMaker makes the runner that starts the workers, before anything else of the agent runs. The runner
// reports its own troubles to `on_trouble`.
using RunnerMaker = std::function<std::unique_ptr<ProcessRunner>(
    const boost::asio::any_io_executor& executor, std::function<void(const std::string&)> on_trouble)>;

// Blocks until the job is over and nothing of this node's part is left; returns the launcher's exit code.
// Without a maker the workers get a guardian. Throws system_error if the port cannot be had; then nothing was
// started.
int run_agent(LaunchOptions options, LauncherLog& log, const Features& features = {},
              const RunnerMaker& make_runner = {});

}  // namespace launch
}  // namespace ddprun
