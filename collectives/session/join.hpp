// Join: the ranks of a new communicator find each other through a Store.
//
// Keys, under `ddprun/communicators/<generation>/`:
//   owner/<rank>          who this rank is: host and pid; a second process that claims it is refused
//   instance/<rank>       how many communicators this rank has begun; the n-th of every rank belong together
//   <n>/member/<rank>     where the rank listens (membership.hpp)
//   <n>/table             rank 0's list of all members, or `!` and why there will be none
//   <n>/gone/<rank>       see Farewell
// So a communicator costs each rank a handful of requests, whatever the number of ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "collectives/session/farewell.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/store/store.hpp"

namespace ddprun {

// How long rank 0, having given up, waits for the others to read why, since the store may end with it.
inline constexpr std::chrono::milliseconds kFarewellPatience{2000};

class Join {
  public:
    using Clock = std::chrono::steady_clock;

    // `owner` tells processes apart. The store is borrowed for the life of this object.
    Join(Store& store, int rank, int world_size, std::uint32_t generation, std::string owner);

    // Publishes `self`, waits for all others until `deadline`. Throws CollectiveError: timed_out with the
    // missing ranks as culprits, or system; lets the store's own errors through.
    Membership run(const Member& self, Clock::time_point deadline);

    // After run().
    Farewell farewell() const;

  private:
    void claim_rank();
    std::string own_key(std::string_view name) const;
    std::string key(std::string_view name, int rank) const;
    std::string table_key() const;
    Membership make_table(Clock::time_point deadline);
    Membership read_table(Clock::time_point deadline);
    std::vector<int> missing_ranks();
    [[noreturn]] void fail_missing(const std::vector<int>& missing, bool publish);

    Store& store_;
    int rank_;
    int world_size_;
    std::uint32_t generation_;
    std::string owner_;
    std::string prefix_;
    std::int64_t instance_ = 0;
};

}  // namespace ddprun
