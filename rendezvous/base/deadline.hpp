// Deadline is the point of time at which a wait ends. A timeout is a duration, a deadline a point.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace ddprun {
inline namespace base {

using Deadline = std::chrono::steady_clock::time_point;

// Returns the time left until the deadline, at least 0; rounded up, so that a wait of that length ends after
// the deadline.
inline std::chrono::milliseconds time_until(Deadline deadline,
                                            Deadline now = std::chrono::steady_clock::now()) {
    return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - now),
                    std::chrono::milliseconds(0));
}

inline bool has_passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

// Returns the timeout for poll(): -1 without a deadline. A far deadline is waited for in pieces of an hour;
// the caller looks at the clock again after each.
inline int poll_timeout(std::optional<Deadline> deadline, Deadline now = std::chrono::steady_clock::now()) {
    constexpr std::chrono::milliseconds kPiece = std::chrono::hours(1);
    return deadline ? static_cast<int>(std::min(time_until(*deadline, now), kPiece).count()) : -1;
}

}  // namespace base
}  // namespace ddprun
