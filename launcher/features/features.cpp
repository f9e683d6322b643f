#include "launcher/features/features.hpp"

#include <utility>

#include "launcher/features/event_log.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/features/hang_watch.hpp"
#include "launcher/features/health_port.hpp"
#include "launcher/features/known_job.hpp"
#include "launcher/features/local_cache.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/started_agent.hpp"
#include "launcher/features/stuck_workers.hpp"
#include "launcher/features/time_limit.hpp"
#include "launcher/features/watchdog.hpp"
#include "launcher/watch/last_look.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// A feature is made where somebody has asked for it; what nobody asks for costs a start nothing.
struct FeatureRow {
    std::unique_ptr<Feature> (*make)(const FeatureInputs&);
    bool (*is_asked)(const LaunchOptions&);
    std::optional<std::string> (*open)(FeatureOptions&, const EarlyFacts&) = nullptr;
    std::optional<LateVariables> (*late)(const LaunchOptions&) = nullptr;
};

bool always(const LaunchOptions&) { return true; }

// Compilers of several nodes may meet in one cache, which is worth a word.
bool asks_for_caches(const LaunchOptions& options) {
    const bool may_be_shared = options.nnodes > 1 && !options.interpreter.empty();
    return !options.workers.empty() && (options.features.of<LocalCacheOptions>().asked || may_be_shared);
}

bool asks_for_health(const LaunchOptions& options) {
    return options.features.of<HealthPortOptions>().port.has_value();
}

bool asks_for_time_limit(const LaunchOptions& options) {
    const auto& times = options.features.of<TimeLimitOptions>();
    return times.limit || times.warn_before;
}

bool asks_for_watchdog(const LaunchOptions& options) {
    return options.features.of<WatchdogOptions>().place.has_value();
}

bool asks_for_hang_watch(const LaunchOptions& options) {
    return options.features.of<HangWatchOptions>().limit.has_value();
}

bool asks_for_stuck_workers(const LaunchOptions& options) {
    const std::string* limit = find_variable(options.environment, kStuckVariable);
    return limit != nullptr && !limit->empty();
}

bool asks_for_judge(const LaunchOptions& options) {
    return !options.features.of<FailureJudgeOptions>().program.empty();
}

bool asks_for_started_agent(const LaunchOptions& options) {
    return options.features.of<StartedAgentOptions>().line != nullptr;
}

bool asks_for_node_check(const LaunchOptions& options) {
    return options.features.of<NodeCheckOptions>().asked;
}

// What ends a detached job's start comes before all else; then signals have their meaning. The local cache is
// next: if it cannot be made nothing else has begun.
constexpr FeatureRow kFeatures[] = {
    {make_known_job, always, open_known_job},  // ddpctl, --detach
    {make_launcher_signals, always},           // --signals-to-handle, --forward, --requeue-on
    {make_terminal, always},                   // --tty, Ctrl-Z, the terminal's size
    {make_local_cache, asks_for_caches, nullptr, late_cache_variables},  // --local-cache
    {make_event_log, always, open_event_log},                            // --events, ddpctl events
    {make_health_port, asks_for_health, open_health_port},
    {make_time_limit, asks_for_time_limit},  // --time-limit, --warn-before
    {make_watchdog, asks_for_watchdog, nullptr, late_timer_variables},
    {make_hang_watch, asks_for_hang_watch},  // --hang-timeout
    {make_stuck_workers, asks_for_stuck_workers},
    {make_last_look, always},
    {make_failure_judge, asks_for_judge},          // --on-failure
    {make_node_check, asks_for_node_check},        // --check
    {make_started_agent, asks_for_started_agent},  // --hosts
};

}  // namespace

std::optional<std::string> open_features(FeatureOptions& options, const EarlyFacts& facts) {
    for (const FeatureRow& row : kFeatures) {
        if (row.open == nullptr) continue;
        if (auto wrong = row.open(options, facts)) return wrong;
    }
    return std::nullopt;
}

std::vector<LateVariables> late_variables(const LaunchOptions& options) {
    std::vector<LateVariables> all;
    for (const FeatureRow& row : kFeatures) {
        if (row.late == nullptr) continue;
        if (auto late = row.late(options)) all.push_back(*std::move(late));
    }
    return all;
}

std::vector<std::unique_ptr<Feature>> make_features(const FeatureInputs& inputs) {
    std::vector<std::unique_ptr<Feature>> made;
    for (const FeatureRow& row : kFeatures) {
        if (!row.is_asked(inputs.options)) continue;
        if (auto feature = row.make(inputs)) made.push_back(std::move(feature));
    }
    return made;
}

}  // namespace launch
}  // namespace ddprun
