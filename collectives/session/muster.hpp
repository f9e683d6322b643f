// Muster: the survivors of a communicator find each other again through the Store in which it was made.
//
// Keys, under `ddprun/shrunk/<generation>/<the communicator's secret number>/<n>/`, for the n-th attempt:
//   excluded       `<rank> <ranks>`: who came first, and whom it excludes; all others must exclude the same
//   member/<rank>  where the rank listens (membership.hpp), by its old rank
//   table          what came of it: the list of members in the old order, or `!` and why there is none
//   gone/<rank>    see Farewell
// No rank leads, for each may die: whoever sees all members there writes the table, whoever runs out of time,
// or disagrees, writes why there is none, and the first of them decides for all. The secret number keeps out
// who was never in the old communicator; an excluded rank is refused by the first key.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/session/farewell.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/store/store.hpp"

namespace ddprun {

// A communicator, as its survivors find each other.
struct MusterPlace {
    std::uint32_t generation = 0;
    Nonce nonce{};  // the communicator's
    int attempt = 1;
    int rank = 0;
    int world_size = 1;
};

class Muster {
  public:
    using Clock = std::chrono::steady_clock;

    // `excluded`: ranks of the communicator, ascending, without this one. The store is borrowed.
    Muster(Store& store, const MusterPlace& place, std::vector<int> excluded);

    // Publishes `self` and waits for all survivors until `deadline`. Throws CollectiveError: timed_out with
    // the missing ranks as culprits, or mismatch with those that exclude others; by their old ranks. Lets the
    // store's own errors through.
    Membership run(const Member& self, Clock::time_point deadline);

    // For a communicator of the survivors.
    Farewell farewell() const;

  private:
    std::string key(const char* name, int rank) const;
    int new_rank() const;
    void require_agreement();
    // What decides: `decision`, or what another rank has decided before.
    std::string decide(const std::string& decision);
    // Decides for the table if all are there. Returns those that are not.
    std::vector<int> try_to_make_table();
    std::string await_decision(Clock::time_point deadline);

    Store& store_;
    MusterPlace place_;
    std::vector<int> excluded_;
    std::vector<int> survivors_;
    std::string prefix_;
};

}  // namespace ddprun
