// enqueue(): from a task to NCCL's functions. Waits for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "collectives/call/task.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/nccl_library.hpp"

namespace ddprun {
inline namespace detail {

NcclType nccl_type(DataType type) noexcept;
// Returns nothing for what NCCL does not have: band, bor, bxor. premul_sum needs an operation of its own
// (create_premul_sum).
std::optional<NcclOp> nccl_op(ReduceOp op) noexcept;

// NcclScalar: a scalar as NCCL reads it: one element of the type.
struct NcclScalar {
    alignas(8) std::array<std::byte, 8> bytes{};
};
NcclScalar nccl_scalar(DataType type, double value) noexcept;

// NcclLaunch: the stream and the communicator that a task is enqueued for.
struct NcclLaunch {
    const NcclLibrary& nccl;
    NcclHandle handle;
    CudaStream stream;
    int rank;
    int ranks;
    NcclOp op = NcclOp::sum;
    // token: device memory of the communicator: an element for barriers and operations without elements.
    void* token = nullptr;
};

// Enqueues the task. For gather, scatter and all_to_all NCCL's own functions are used from 2.28 on, before
// that sends and receives.
NcclResult enqueue(const NcclLaunch& on, const Task& task);

}  // namespace detail
}  // namespace ddprun
