// run_in_stages: collectives of large buffers through the staged rounds of a ShmChannel.
//
// A round takes as much of the buffers as a stage holds. Each rank copies what others need of its input into
// its stage, two rounds ahead of the ranks that read it. To reduce, each rank takes its own slice from all
// ranks' stages in the order 0 … n-1. Every element is reduced by one rank in one order, so results are
// bitwise equal on all ranks and from run to run, as long as the ranks share a host.
//
// all_reduce and reduce write the result back to where the slices were read from, in the others' stages: each
// rank then finds all it needs in its own stage. A cache line goes just to a peer and back, and the peer
// writes it while its cache holds it. A result in lines that others have read takes about twice as long,
// since those lines must first be taken from the others' caches.
//
// A rank with its input in its pool stages nothing: the others read it there, round by round, and the rank
// waits at the end until all have done so.
//
// The channel must have an open, not yet announced call; or one that is announced with a note, and that all
// others have announced.
#pragma once

#include "collectives/shm/copy_shared.hpp"
#include "collectives/shm/shm_channel.hpp"

namespace ddprun {
inline namespace detail {

// run_in_stages carries out an operation of all ranks but a barrier, of more than no elements. `note`: where
// this rank's input lies; none for a reduction for all or a root. `announced`: see above.
void run_in_stages(ShmChannel& channel, const Task& task, const ShmNote& note = {}, bool announced = false);

// probe_store_type tries both types of store, and returns the one that suits the processor. All ranks call
// it, as part of making the communicator and before any other call. Each reduces a little through the stages
// with each type, in less than a millisecond, and returns the faster one as it saw it. Where the ranks cannot
// all run at once, that is plain, since times say nothing there. With `all_measured`, all processes have
// measured before, and the result is what this one found then. Throws as PeerMesh::wait does.
StoreType probe_store_type(ShmChannel& channel, bool all_measured, const PeerMesh::Operation& joining);

}  // namespace detail
}  // namespace ddprun
