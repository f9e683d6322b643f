// join_through: the ranks that a launcher, or the user, has numbered make a communicator through a Store.
//
// Keys, under `ddprun/communicators/<round>/`:
//   owner/<rank>     which process this rank is (claim.hpp); a second one that claims it is refused while the
//                    first one lives
//   instance/<rank>  how many communicators this rank has begun; the n-th of every rank belong together
//   <n>/…            how these find each other, see gathering.hpp
#pragma once

#include <cstdint>
#include <string>

#include "collectives/session/departure.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/store/store.hpp"

namespace ddprun {
inline namespace detail {

// kDepartureTimeout: how long rank 0, having given up, waits for the others to read why, since the store may
// end with it.
inline constexpr std::chrono::milliseconds kDepartureTimeout{2000};

// Joining: which rank joins. `owner` tells processes apart.
struct Joining {
    int rank = 0;
    int world_size = 1;
    std::uint32_t round = 0;
    std::string owner;
};

struct Joined {
    Membership membership;
    Departure departure;
};

// Publishes `self`, waits for all others until `deadline`. Throws as Gathering::run() does, and
// CollectiveError system for a rank that another process has.
Joined join_through(Store& store, const Joining& joining, const Member& self, Deadline deadline);

}  // namespace detail
}  // namespace ddprun
