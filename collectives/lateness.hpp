// Lateness: who is to blame when a deadline passes. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "collectives/call.hpp"
#include "collectives/verdict.hpp"

namespace ddprun {

// How long something may take, and the option that says so.
struct TimeLimit {
    std::chrono::milliseconds length;
    std::string_view option;
};

// Where no single rank is waited for.
inline constexpr int kNobodyAwaited = -1;

// Judges from `progress`, the ranks' last calls (nothing for one that does not answer), who kept `rank` from
// finishing `call` in time: ranks that have not come or do not answer; ranks that are in another call, a
// mismatch; else the rank it was waiting for, `awaited`, or nobody. Send and recv concern nobody but
// `awaited`.
Verdict judge_lateness(const std::vector<std::optional<Call>>& progress, const Call& call, int rank,
                       int awaited, const TimeLimit& limit);

}  // namespace ddprun
