// Shm probe: finds out which stores suit the processor, by trying both.
#pragma once

#include "collectives/shm/shm_channel.hpp"

namespace ddprun {

// Called by all ranks, as part of making the communicator and before any other call: reduces a little through
// the stages with each type of store, and returns the faster one as this rank saw it; plain where the ranks
// cannot all run at once, since times say nothing there. Takes less than a millisecond. Throws as
// PeerMesh::wait does.
StoreType probe_store_type(ShmChannel& channel, const PeerMesh::Operation& joining);

}  // namespace ddprun
