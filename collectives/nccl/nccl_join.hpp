// join_nccl: the ranks of a new communicator agree that all of them can use NCCL, and make NCCL's
// communicator.
//
// All ranks tell each other, over TCP, whether they found NCCL, the driver and their device. A rank that did
// not ends the making for all, with its own words. Then all make the communicator from rank 0's id.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/nccl_peers.hpp"
#include "collectives/options.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

// NcclSettings: whether NCCL is to be the backend, by which libraries and on which device.

// kNcclVersionWithAlgoByOperation: from this version on NCCL_ALGO takes algorithms for single operations.
inline constexpr int kNcclVersionWithAlgoByOperation = 22400;

// Returns what NCCL_ALGO is set to. Operations that only move data keep NCCL's own choice where that is
// possible.
const char* nccl_rings(int version) noexcept;

// Returns whether a value of NCCL_ALGO lets all_reduce, reduce and reduce_scatter go by rings and nothing
// else. Pure.
bool reduces_by_rings(std::string_view algorithms);

struct NcclSettings {
    std::string nccl_library;  // paths; empty: the system's
    std::string cuda_library;
    int device = 0;
    bool reproducible = false;  // see CommunicatorOptions
};

// Reads the options and the environment: DDPRUN_BACKEND, DDPRUN_NCCL_LIBRARY, DDPRUN_CUDA_LIBRARY,
// DDPRUN_DEVICE. Where the last is not set, the device is that of `local_rank`, or of LOCAL_RANK if
// `local_rank` is below 0. Nothing if the backend is not to be NCCL. Throws invalid_argument naming the
// variable that is wrong, as NCCL_ALGO is where it contradicts CommunicatorOptions::reproducible.
std::optional<NcclSettings> read_nccl_settings(const Environment& environment,
                                               const CommunicatorOptions& options, int local_rank);

// Makes the backend. Called by all ranks. Throws CollectiveError.
std::unique_ptr<Backend> join_nccl(std::unique_ptr<NcclPeers> peers, const NcclSettings& settings,
                                   const PeerMesh::Operation& joining);

}  // namespace detail
}  // namespace ddprun
