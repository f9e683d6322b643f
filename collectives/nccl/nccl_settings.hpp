// NCCL settings: whether NCCL is to be the backend, by which libraries and on which device.
#pragma once

#include <optional>
#include <string>

#include "collectives/options.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline detail {

struct NcclSettings {
    std::string nccl_library;  // paths; empty: the system's
    std::string cuda_library;
    int device = 0;
    bool reproducible = false;  // see nccl_rings.hpp
};

// From the options and the environment: DDPRUN_BACKEND, DDPRUN_NCCL_LIBRARY, DDPRUN_CUDA_LIBRARY,
// DDPRUN_DEVICE; where that is not set, the device is that of `local_rank`, or of LOCAL_RANK if it is below
// 0. Nothing if the backend is not to be NCCL. Throws invalid_argument naming the variable that is wrong, as
// NCCL_ALGO is where it contradicts CommunicatorOptions::reproducible.
std::optional<NcclSettings> read_nccl_settings(const Environment& environment,
                                               const CommunicatorOptions& options, int local_rank);

}  // namespace ddprun::inline detail
