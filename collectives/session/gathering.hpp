// Gathering: the ranks of a new communicator find each other through a Store, at first (join.hpp) and after a
// failure (shrink.hpp). No rank leads, for each may die or never come.
//
// Keys, under a prefix that this communicator alone has:
//   terms          `<rank> <world_size> <excluded>`: who came first, and whom it expects; all others must
//                  expect the same
//   member/<rank>  where the rank listens (membership.hpp)
//   arrived        how many have said that
//   table          what came of it: the list of members, or `!` and why there is none
//   gone/<rank>    see Farewell; ranks of the new communicator
// The last to come writes the table. Whoever runs out of time, or disagrees, writes why there is none; what is
// written first decides for all. So it costs each rank a handful of requests, whatever the number of ranks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "collectives/session/farewell.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/store/store.hpp"

namespace ddprun {

// Which ranks are to come. `excluded`, ascending: numbers below world_size that nobody has, the new
// communicator's ranks are counted without them.
struct Terms {
    int world_size = 1;
    std::vector<int> excluded;

    bool operator==(const Terms&) const = default;
};

// How errors name it: the operation ("join"), and whom it gathers ("ranks").
struct GatheringNames {
    const char* operation;
    const char* members;
};

class Gathering {
  public:
    using Clock = std::chrono::steady_clock;

    // `prefix` ends with a slash; `rank` is expected by its own `terms`. The store is borrowed.
    Gathering(Store& store, GatheringNames names, std::string prefix, int rank, Terms terms);

    // Publishes `self` and waits for all others until `deadline`. Generation and communicator of what it
    // returns are 0. Throws CollectiveError: timed_out with the missing ranks as culprits, or mismatch with
    // two that expect others; lets the store's own errors through.
    Membership run(const Member& self, Clock::time_point deadline);

    // Ranks that are expected and have not come.
    std::vector<int> missing();

    // For the communicator made.
    Farewell farewell() const;

  private:
    std::string key(const char* name, int rank) const;
    int new_rank() const;
    void require_agreement();
    // What decides: `decision`, or what another rank has decided before.
    std::string decide(const std::string& decision);
    void throw_if_failure(const std::string& decision) const;
    void make_table();
    std::string await_decision(Clock::time_point deadline);

    Store& store_;
    GatheringNames names_;
    std::string prefix_;
    int rank_;
    Terms terms_;
    std::vector<int> expected_;
};

}  // namespace ddprun
