#include "launcher/features/features.hpp"

#include <utility>

#include "launcher/features/event_log.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/features/health.hpp"
#include "launcher/features/local_cache.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/stuck_workers.hpp"
#include "launcher/features/time_limit.hpp"
#include "launcher/features/watchdog.hpp"

namespace ddprun::inline launch {
namespace {

// Signals have their meaning first. The local cache is next: if it cannot be made nothing else has begun.
constexpr std::unique_ptr<Feature> (*kFeatures[])(FeatureInputs&) = {
    make_launcher_signals,  // --signals-to-handle, --forward, --requeue-on
    make_terminal,          // --tty, Ctrl-Z, the terminal's size
    make_local_cache,       // --local-cache
    make_event_log,         // --events
    make_health,            // TORCHELASTIC_HEALTH_CHECK_PORT
    make_time_limit,        // --time-limit, --warn-before
    make_watchdog,          // TORCHELASTIC_ENABLE_FILE_TIMER
    make_stuck_workers,     // TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT
    make_failure_judge,     // --on-failure
    make_node_check,        // --check
};

}  // namespace

std::vector<std::unique_ptr<Feature>> make_features(FeatureInputs& inputs) {
    std::vector<std::unique_ptr<Feature>> made;
    for (const auto& make : kFeatures) {
        if (auto feature = make(inputs)) made.push_back(std::move(feature));
    }
    return made;
}

}  // namespace ddprun::inline launch
