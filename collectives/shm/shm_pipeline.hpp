// Shm pipeline: collectives of large buffers through the staged rounds of a ShmChannel.
//
// A round takes as much of the buffers as a stage holds. Whatever others need of a rank's input it copies
// into its stage, two rounds ahead of those who read it. To reduce, each rank takes its own slice from all
// ranks' stages in the order 0 … n-1; every element is reduced by one rank in one order, so results are
// bitwise equal on all ranks and from run to run, as long as the ranks share a host.
//
// all_reduce and reduce write the result back to where the slices were read from, in the others' stages,
// where each rank finds all it needs in its own stage. So each cache line goes just to a peer and back, and
// the peer writes it while its cache holds it: that takes about half the time of a result in lines that
// others have read, which must be taken from their caches first.
//
// A rank whose input lies in its pool stages nothing: the others read it there, round by round, and it waits
// at the end until all have done so.
//
// The channel must have an open, not yet announced call; or one that is announced with a note, and that all
// others have announced.
#pragma once

#include "collectives/shm/shm_channel.hpp"

namespace ddprun {
inline namespace detail {

// Carries out an operation of all ranks but a barrier, of more than no elements. `note`: where this rank's
// input lies; of a reduction for all or a root none. `announced`: see above.
void run_in_stages(ShmChannel& channel, const Task& task, const ShmNote& note = {}, bool announced = false);

// Finds out which stores suit the processor, by trying both.
// Called by all ranks, as part of making the communicator and before any other call: reduces a little through
// the stages with each type of store, and returns the faster one as this rank saw it; plain where the ranks
// cannot all run at once, since times say nothing there. Takes less than a millisecond. Throws as
// PeerMesh::wait does. Where all processes have done so, what they found then.
StoreType probe_store_type(ShmChannel& channel, bool all_measured, const PeerMesh::Operation& joining);

}  // namespace detail
}  // namespace ddprun
