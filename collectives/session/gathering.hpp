// Gathering: the ranks of a new communicator find each other through a Store, at first (bootstrap.hpp) and
// after a failure (split.hpp). No rank leads, for each may die or never come.
//
// Keys, under a prefix that this communicator alone has:
//   terms          `<rank> <world_size> <excluded>`: which rank came first, and which ranks it expects; all
//                  others must expect the same
//   member/<rank>  where the rank listens (membership.hpp)
//   arrived        how many have said that
//   table          what came of it: the list of members, or `!` and why there is none
//   gone/<rank>    see Departure; ranks of the new communicator
// The last to come writes the table. A rank that runs out of time, or disagrees, writes why there is none;
// what is written first decides for all. Each rank needs a handful of requests, whatever the number of ranks.
#pragma once

#include <string>
#include <vector>

#include "collectives/session/departure.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/store/store.hpp"

namespace ddprun {
inline namespace detail {

// Terms: which ranks are to come. `excluded`, ascending, are numbers below world_size that no rank has; the
// new communicator's ranks are counted without them.
struct Terms {
    int world_size = 1;
    std::vector<int> excluded;

    bool operator==(const Terms&) const = default;
};

// GatheringNames: how errors name a gathering: its operation ("join"), and what it gathers ("ranks").
struct GatheringNames {
    const char* operation;
    const char* members;
};

class Gathering {
  public:
    using Clock = Deadline::clock;

    // Gathering borrows the store. `prefix` ends with a slash; `rank` is expected by its own `terms`.
    Gathering(Store& store, GatheringNames names, std::string prefix, int rank, Terms terms);

    // Publishes `self` and waits for all others until `deadline`. Round and communicator of what it
    // returns are 0. Throws CollectiveError: timed_out with the missing ranks as culprits, or mismatch with
    // two that expect others; lets the store's own errors through.
    Membership run(const Member& self, Deadline deadline);

    // Returns the ranks that are expected and have not come.
    std::vector<int> missing();

    // Returns the Departure of the new communicator.
    Departure departure() const;

  private:
    std::string key(const char* name, int rank) const;
    void require_agreement();
    // Returns the decision that counts: `decision`, or another rank's earlier one.
    std::string decide(const std::string& decision);
    void throw_if_failure(const std::string& decision) const;
    void make_table();
    std::string await_decision(Deadline deadline);

    Store& store_;
    GatheringNames names_;
    std::string prefix_;
    int rank_;
    Terms terms_;
    std::vector<int> expected_;
    int new_rank_;  // this rank's place among them
};

}  // namespace detail
}  // namespace ddprun
