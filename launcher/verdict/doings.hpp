// doings_of() puts one look at ranks into what is told once they have ended: which of them did what. Pure.
#pragma once

#include <set>
#include <vector>

#include "launcher/verdict/observation.hpp"
#include "rendezvous/job/ranks_doing.hpp"

namespace ddprun {
inline namespace launch {

// Returns what living ranks did, without those that were just being started. `failing`: ranks that were about
// to end by themselves; they count only where they waited for others.
std::vector<RanksDoing> doings_of(const std::vector<Observation>& observations,
                                  const std::set<int>& failing = {});

}  // namespace launch
}  // namespace ddprun
