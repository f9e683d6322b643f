#include "launcher/features/features.hpp"

#include <utility>

#include "launcher/features/event_log.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/features/health_port.hpp"
#include "launcher/features/known_job.hpp"
#include "launcher/features/local_cache.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/stuck_workers.hpp"
#include "launcher/features/time_limit.hpp"
#include "launcher/features/watchdog.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Inputs = FeatureInputs;

// A feature is made where somebody has asked for it; what nobody asks for costs a start nothing.
struct FeatureRow {
    std::unique_ptr<Feature> (*make)(FeatureInputs&);
    bool (*is_asked)(const FeatureInputs&);
};

// Compilers of several nodes may meet in one cache, which is worth a word.
bool asks_for_caches(const Inputs& inputs) {
    const LaunchOptions& options = inputs.options;
    const bool may_be_shared = options.nnodes > 1 && !options.interpreter.empty();
    return !options.workers.empty() && (options.local_cache || may_be_shared);
}

bool asks_for_stuck_workers(const Inputs& inputs) {
    const std::string* limit = find_variable(inputs.options.environment, kStuckVariable);
    return limit != nullptr && !limit->empty();
}

// What ends a detached job's start comes before all else; then signals have their meaning. The local cache is
// next: if it cannot be made nothing else has begun.
constexpr FeatureRow kFeatures[] = {
    {make_known_job, [](const Inputs&) { return true; }},  // ddpctl, --detach
    {make_launcher_signals,
     [](const Inputs&) { return true; }},                  // --signals-to-handle, --forward, --requeue-on
    {make_terminal, [](const Inputs&) { return true; }},   // --tty, Ctrl-Z, the terminal's size
    {make_local_cache, asks_for_caches},                   // --local-cache
    {make_event_log, [](const Inputs&) { return true; }},  // --events, ddpctl events
    {make_health_port, [](const Inputs& inputs) { return inputs.health_port.has_value(); }},
    {make_time_limit,
     [](const Inputs& inputs) { return inputs.options.times.limit || inputs.options.times.warn_before; }},
    {make_watchdog, [](const Inputs& inputs) { return inputs.options.timer_place.has_value(); }},
    {make_stuck_workers, asks_for_stuck_workers},
    {make_failure_judge, [](const Inputs& inputs) { return !inputs.options.on_failure.empty(); }},
    {make_node_check, [](const Inputs& inputs) { return inputs.checks_node; }},  // --check
};

}  // namespace

std::vector<std::unique_ptr<Feature>> make_features(FeatureInputs& inputs) {
    std::vector<std::unique_ptr<Feature>> made;
    for (const auto& [make, is_asked] : kFeatures) {
        if (!is_asked(inputs)) continue;
        if (auto feature = make(inputs)) made.push_back(std::move(feature));
    }
    return made;
}

}  // namespace launch
}  // namespace ddprun
