// LaunchFeatures: the features of this launch (launcher/features/features.hpp), from the moment that the command line is
// understood: what they need of the system is opened then, so that what is wrong with it is said before anything starts.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/features/features.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/path_template.hpp"

namespace ddprun::inline app {

class LaunchFeatures {
  public:
    // `start`: of this launcher; `known`: for the signs in the path. Opens the file; `log` outlives it. Throws UsageError.
    LaunchFeatures(const CommandLine& line, const PathFacts& known, const Environment& environment,
                   std::chrono::steady_clock::time_point start, LauncherLog& log);

    // This machine was looked at, and this is the launch.
    void launch_known(const LaunchOptions& options, RdzvBackend backend);

    // What the agent is told, those that there are.
    std::vector<Feature*> all() const;

    // The launcher ends so before an agent has.
    void fails(int exit_code, std::string_view reason);
    // Another process, of --detach, goes on; this one's have nothing to say.
    void go_on_elsewhere();

  private:
    std::chrono::steady_clock::time_point start_;
    std::chrono::steady_clock::time_point options_read_;
    LauncherLog& log_;
    std::optional<AppendedFile> event_log_;  // until there are features
    std::optional<std::uint16_t> health_port_;
    std::vector<std::unique_ptr<Feature>> features_;
};

}  // namespace ddprun::inline app
