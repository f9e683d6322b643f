// claim_rank: which process has a rank, as the store keeps it. A claim outlives its process where the store
// does, as under torchrun or in a file; the claim of a dead process counts for nothing.
//
// A claim is `pid <number> on <host> since <start>`. The start, in ticks since the system's own start, and
// the number together name one process for good. The host's identity has the namespace in which the number
// counts.
#pragma once

#include <string>

#include "rendezvous/store/store.hpp"

namespace ddprun {
inline namespace detail {

// Returns the claim of this process on a host of that identity.
std::string own_claim(const std::string& host);

// Returns whether the process that made `claim`, on the host of this process, is known to have ended. `own`
// is this process's claim. False for claims of other hosts, and for what is no claim.
bool is_of_dead(const std::string& claim, const std::string& own);

// Claims `rank` under `key` for the process that makes `own`; what a dead process has there counts for
// nothing. Throws CollectiveError system for a rank that another process has.
void claim_rank(Store& store, const std::string& key, int rank, const std::string& own);

}  // namespace detail
}  // namespace ddprun
