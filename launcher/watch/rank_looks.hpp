// look_at_ranks() observes what the workers of this node do: of each the process that does its work, whatever
// has started that.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/verdict/observation.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

struct LookScope {
    AgentStatus node;
    std::vector<int> ranks;          // of this node; empty: all
    bool threads = false;            // all threads, too
    bool native = false;             // native frames beside Python's, too
    std::map<int, OwnProgress> own;  // by rank, where the job is watched
    std::chrono::milliseconds limit{1'000};
};

// kMostLookers: ranks that are looked at side by side.
inline constexpr std::size_t kMostLookers = 8;

// TellSeen takes what was seen of one rank as soon as that is known, on several threads side by side.
using TellSeen = std::function<void(const Observation&)>;

// Returns what is seen of each rank. Blocks for some milliseconds a rank, by which the caller's thread is not
// the agent's; returns early, with what is there, once `is_cancelled`. `tell` may be empty.
std::vector<Observation> look_at_ranks(const LookScope& scope, const std::atomic<bool>& is_cancelled,
                                       const TellSeen& tell = {});

}  // namespace launch
}  // namespace ddprun
