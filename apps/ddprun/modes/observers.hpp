// Observers: those who watch the agent for somebody outside: the file of --events, and who asks whether it is alive
// (TORCHELASTIC_HEALTH_CHECK_PORT). Made before the agent, which it outlives; on its thread.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/events/event_recorder.hpp"
#include "launcher/health/health_watch.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/path_template.hpp"

namespace ddprun::inline app {

class Observers {
  public:
    // `start`: of this launcher; `known`: for the signs in the path. Opens the file; `log` outlives it. Throws UsageError.
    Observers(const CommandLine& line, const PathFacts& known, const Environment& environment,
              std::chrono::steady_clock::time_point start, LauncherLog& log);

    // This machine was looked at, and this is the launch.
    void launch_known(const LaunchOptions& options, RdzvBackend backend);

    // What the agent is told, those that there are.
    std::vector<AgentWatcher*> all();

    // The launcher ends so before an agent has.
    void fails(int exit_code, std::string_view reason);
    // Another process, of --detach, goes on; this one's have nothing to say.
    void forget();

  private:
    std::chrono::steady_clock::time_point start_;
    std::chrono::steady_clock::time_point options_read_;
    LauncherLog& log_;
    std::optional<AppendedFile> file_;  // until there is `events_`
    std::optional<EventRecorder> events_;
    std::optional<HealthWatch> health_;
};

}  // namespace ddprun::inline app
