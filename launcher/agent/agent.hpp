// Agent: runs this node's part of a job, from joining to the exit code.
//
// Feeds events (coordinator, workers, signals, timers) to the AgentMachine and carries its actions out.
// Created and run by main on the main thread; everything of it happens there. Node 0's agent also hosts the
// RendezvousServer and leaves last. One Agent runs one job.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "launcher/agent/agent_watcher.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/console.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun {

class Agent {
  public:
    // What an agent says about trouble while it joins: not before this time, then on changes.
    static constexpr std::chrono::seconds kFirstTroubleDelay{3};
    // How much longer than one grace period the other nodes may take to end.
    static constexpr std::chrono::seconds kFinishPatience{20};
    // How long the host waits for the other agents' goodbyes once the job is over.
    static constexpr std::chrono::seconds kGoodbyeTimeout{5};

    // Makes what starts the workers, before anything else of the agent runs; it says what is wrong with it.
    using RunnerMaker = std::function<std::unique_ptr<ProcessRunner>(
        const boost::asio::any_io_executor& executor, std::function<void(const std::string&)> on_trouble)>;
    static std::unique_ptr<ProcessRunner> make_guardian(const boost::asio::any_io_executor& executor,
                                                        std::function<void(const std::string&)> on_trouble);

    // `watcher` may be missing; it outlives the agent.
    Agent(LaunchOptions options, Console& console, AgentWatcher* watcher = nullptr,
          const RunnerMaker& make_runner = make_guardian);
    ~Agent();

    // Blocks until the job is over and nothing of this node's part is left; returns the launcher's exit code.
    // Throws system_error if the port cannot be had; then nothing was started.
    int run();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
