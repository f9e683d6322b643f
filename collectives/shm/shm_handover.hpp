// Shm handover: the ranks of a new communicator agree whether those of each host share memory, and map it.
//
// Two all-gathers over TCP: the offer of the lowest rank of each host, then whether each rank could map it.
// So all ranks decide alike, whatever a single one may or may not do, and a rank that dies meanwhile is found
// by the mesh as always.
#pragma once

#include <optional>

#include "collectives/shm/shm_segment.hpp"
#include "collectives/tcp/peer_mesh.hpp"

namespace ddprun::inline detail {

// Called by all ranks of a mesh, as part of making the communicator. `wanted` is this rank's own wish; one
// rank without it decides for all. Nothing if any rank could not. Throws as PeerMesh::wait does.
std::optional<ShmSegment> hand_over_segment(PeerMesh& mesh, bool wanted, const PeerMesh::Operation& joining);

}  // namespace ddprun::inline detail
