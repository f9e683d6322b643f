// Claim: which process has a rank, as the store keeps it. A claim outlives its process where the store does,
// as under torchrun or in a file: whoever is dead has no place.
//
// `pid <number> on <host> since <start>`: the start is in the system's ticks since its own, which with the
// number names one process for good; the host's identity has the namespace in which the number counts.
#pragma once

#include <string>

#include "rendezvous/store/store.hpp"

namespace ddprun {
inline namespace detail {

// The claim of this process on a host of that identity.
std::string own_claim(const std::string& host);

// Whether the process that made `claim` is known to have ended, by the process that makes `own`: one of the
// same host. Of others, and of what is no claim, it is not known.
bool is_of_dead(const std::string& claim, const std::string& own);

// Claims `rank` under `key` for the process that makes `own`; what a dead one has there counts for nothing.
// Throws CollectiveError system for a rank that another process has.
void claim_rank(Store& store, const std::string& key, int rank, const std::string& own);

}  // namespace detail
}  // namespace ddprun
