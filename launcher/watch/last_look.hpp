// LastLook looks at the workers of this node once before they are told to end, and once more at half of the
// grace at those that are left: what a rank waited for when another one failed is gone a moment later.
//
// The reading is done on a thread of its own, and the signal is held until all ranks were read, at the latest
// for look_time(). Ranks that were not read by then are left out; a worker that cannot be read holds nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "launcher/agent/feature.hpp"
#include "launcher/watch/rank_looks.hpp"

namespace ddprun {
inline namespace launch {

// Returns how long a look may take before this step of a stop; nothing where none is taken, since nothing has
// failed.
std::optional<std::chrono::milliseconds> look_time(const StopCause& cause);

// kLastLookTime: where time was lost already, or where the wait is what has failed.
inline constexpr std::chrono::milliseconds kLastLookTime{500};

// RankLooker reads ranks as look_at_ranks() does.
using RankLooker =
    std::function<void(const LookScope& scope, const std::atomic<bool>& is_cancelled, const TellSeen& tell)>;

// Makes the feature that reads ranks by `looker`.
std::unique_ptr<Feature> make_last_look_by(RankLooker looker);

// Makes the feature that every launch has.
std::unique_ptr<Feature> make_last_look(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
