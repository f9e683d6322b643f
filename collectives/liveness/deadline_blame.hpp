// Deadline blame: who is to blame when a deadline passes. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/call/verdict.hpp"

namespace ddprun::inline detail {

// How long something may take, and the option that says so.
struct NamedTimeout {
    std::chrono::milliseconds length;
    std::string_view option;
};

// Judges from `progress`, the ranks' last calls (nothing for one that does not answer), who kept `rank` from
// finishing `call` in time: ranks that have not come or do not answer; ranks that are in another call, a
// mismatch; else the first of those it was waiting for, `awaited`, or nobody. Send, recv and groups of them
// concern nobody but `awaited`: those of them that exchange no messages at all, or else all.
Verdict blame_for_deadline(const std::vector<std::optional<Call>>& progress, const Call& call, int rank,
                           const std::vector<int>& awaited, const NamedTimeout& timeout);

// One line without its end about a call that has taken `timeout` and goes on, from the same. Nothing where a
// rank below is in the same call, and says it.
std::optional<std::string> notice_of_wait(const std::vector<std::optional<Call>>& progress, const Call& call,
                                          int rank, const std::vector<int>& awaited,
                                          const NamedTimeout& timeout);

}  // namespace ddprun::inline detail
