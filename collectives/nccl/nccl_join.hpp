// NCCL join: the ranks of a new communicator agree that all of them can use NCCL, and make NCCL's
// communicator.
//
// All ranks tell each other, over TCP, whether they found NCCL, the driver and their device; one that did not
// ends the making for all, with its own words. Then all make the communicator from rank 0's id.
#pragma once

#include <memory>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/nccl_peers.hpp"
#include "collectives/nccl/nccl_settings.hpp"

namespace ddprun::inline detail {

// Called by all ranks. Throws CollectiveError.
std::unique_ptr<Backend> join_nccl(std::unique_ptr<NcclPeers> peers, const NcclSettings& settings,
                                   const PeerMesh::Operation& joining);

}  // namespace ddprun::inline detail
