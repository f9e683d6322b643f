#include "launcher/watch/published_calls.hpp"

#include <algorithm>

namespace ddprun {
inline namespace launch {

CollectiveCall observed_call(const PublishedCall& published, const Wait& main,
                             std::chrono::steady_clock::time_point now) {
    CollectiveCall call{published.operation, published.group, published.number, {}, {}};
    if (!published.wait) return call;
    const PublishedWait& wait = *published.wait;
    // What another thread ends by a condition variable is a lock without a holder.
    const bool waits_for_thread = main.kind == WaitKind::lock && main.thread == 0;
    if (!wait.is_main && !waits_for_thread) return call;
    const auto time = now.time_since_epoch() - std::chrono::nanoseconds(wait.since_ns);
    const auto length = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
    call.for_ms = std::max<std::int64_t>(length, 0);
    call.awaited = wait.awaited;
    return call;
}

}  // namespace launch
}  // namespace ddprun
