// Gathering: the ranks of a new communicator find each other through a Store, at first (bootstrap.hpp) and after
// a failure (split.hpp). No rank leads, for each may die or never come.
//
// Keys, under a prefix that this communicator alone has:
//   terms          `<rank> <world_size> <excluded>`: who came first, and whom it expects; all others must
//                  expect the same
//   member/<rank>  where the rank listens (membership.hpp)
//   arrived        how many have said that
//   table          what came of it: the list of members, or `!` and why there is none
//   gone/<rank>    see Departure; ranks of the new communicator
// The last to come writes the table. A rank that runs out of time, or disagrees, writes why there is none; what is
// written first decides for all. So it costs each rank a handful of requests, whatever the number of ranks.
#pragma once

#include <string>
#include <vector>

#include "collectives/wire/membership.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline detail {

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

// How the ranks of a communicator tell the one that serves their store that they need it no more. Borrows the
// store, whose own errors come through.
class Departure {
  public:
    Departure(Store& store, std::string prefix, int rank, int world_size)
        : store_(store), prefix_(std::move(prefix)), rank_(rank), world_size_(world_size) {}

    void say_gone();
    // Waits until these, or all others, have said so; `timeout` at most. False when they have not.
    bool wait_for(const std::vector<int>& ranks, std::chrono::milliseconds timeout);
    bool wait_for_others(std::chrono::milliseconds timeout);

  private:
    std::string key(int rank) const;

    Store& store_;
    std::string prefix_;
    int rank_;
    int world_size_;
};

class Gathering {
  public:
    using Clock = Deadline::clock;

    // `prefix` ends with a slash; `rank` is expected by its own `terms`. The store is borrowed.
    Gathering(Store& store, GatheringNames names, std::string prefix, int rank, Terms terms);

    // Publishes `self` and waits for all others until `deadline`. Round and communicator of what it
    // returns are 0. Throws CollectiveError: timed_out with the missing ranks as culprits, or mismatch with
    // two that expect others; lets the store's own errors through.
    Membership run(const Member& self, Deadline deadline);

    // Ranks that are expected and have not come.
    std::vector<int> missing();

    // The communicator that is made gets these.
    Departure departure() const;

  private:
    std::string key(const char* name, int rank) const;
    void require_agreement();
    // Returns what counts: `decision`, or what another rank has decided before.
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

}  // namespace ddprun::inline detail
