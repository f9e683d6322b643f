// Restart: one restart of the job. Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/job/number_limits.hpp"

namespace ddprun::inline job {

inline constexpr std::size_t kMaxReasonText = 256;

struct Restart {
    int round = 0;  // the one that failed
    std::string reason;
    std::int64_t unix_time_ms = 0;  // of that failure, see Failure
};
BOOST_DESCRIBE_STRUCT(Restart, (), (round, reason, unix_time_ms))
constexpr std::size_t limit_of(Of<&Restart::reason>) { return kMaxReasonText; }
constexpr NumberRange range_of(Of<&Restart::round>) { return kCountRange; }
constexpr NumberRange range_of(Of<&Restart::unix_time_ms>) { return kMillisecondRange; }

}  // namespace ddprun::inline job
