// RankState is what an observation means among those of the other ranks. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/verdict/observation.hpp"

namespace ddprun {
inline namespace launch {

enum class Role {
    computes,
    meets,    // waits for other ranks
    asks,     // waits for the store
    syncs,    // waits for a device, which may wait for other ranks
    listens,  // waits for a connection, of whatever
    blocked,  // cannot go on: a file system, a lock that is held, output that is not read, a stop
    idle,     // waits for something that may never have been meant to come
    ended,    // with 0
    failed,   // has ended with something else
    unknown,  // could not be read
};

struct RankState {
    const Observation* seen = nullptr;
    Role role = Role::unknown;
    WaitKind kind = WaitKind::running;  // as frames have it, too
    const Frame* place = nullptr;       // of the user; nullptr: not known
    std::string operation;              // by which it meets others; empty: none, or not known
    // awaited: ranks that are known to be waited for, ascending; of those that were seen, and never itself.
    std::vector<int> awaited;

    int rank() const { return seen->rank; }
    bool is_alive() const { return role != Role::ended && role != Role::failed; }
    // Says whether what is waited for is one rank, or one thing that one has.
    bool is_pair() const;
};

// Returns the states by rank, each rank once; they point into the observations.
std::vector<RankState> rank_states(const std::vector<Observation>& observations);

}  // namespace launch
}  // namespace ddprun
