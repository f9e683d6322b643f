// NcclCalls: from a task to NCCL's functions. Enqueues only; waits for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "collectives/call/backend.hpp"
#include "collectives/nccl/cuda_driver.hpp"
#include "collectives/nccl/gpu_abi.hpp"

namespace ddprun::inline detail {

// NcclLibrary: NCCL's functions, found at run time. Immutable; any thread.
//
// Nothing of ddprun links with NCCL, so its programs start everywhere, and only a communicator that asks for
// the NCCL backend needs it.

// Before 2.19, ncclCommAbort could hang when another thread was using the communicator (NCCL issue 1013).
// That before 2.24 a send or receive may be reported as launched before it is (NCCL issue 1495) is true of
// non-blocking communicators only, which nccl_comm.hpp does not make.
inline constexpr int kMinNcclVersion = 21900;

struct NcclLibrary {
    // Opens `path`, or if it is empty the system's libnccl.so.2. Throws CollectiveError with code `system` if
    // there is none, it is too old, or it lacks a function.
    static std::shared_ptr<const NcclLibrary> open(const std::string& path);

    const SharedLibrary library;
    NcclResult (*get_version)(int*) = library.require("ncclGetVersion");
    const int version = checked_version();  // 22809 is 2.28.9

    NcclResult (*get_unique_id)(NcclUniqueId*) = library.require("ncclGetUniqueId");
    NcclResult (*init_rank_config)(NcclHandle*, int ranks, NcclUniqueId, int rank,
                                   NcclConfig*) = library.require("ncclCommInitRankConfig");
    NcclResult (*finalize)(NcclHandle) = library.require("ncclCommFinalize");
    NcclResult (*destroy)(NcclHandle) = library.require("ncclCommDestroy");
    NcclResult (*abort)(NcclHandle) = library.require("ncclCommAbort");
    NcclResult (*get_async_error)(NcclHandle, NcclResult*) = library.require("ncclCommGetAsyncError");
    const char* (*get_error_string)(NcclResult) = library.require("ncclGetErrorString");
    const char* (*get_last_error)(NcclHandle) = library.require("ncclGetLastError");
    NcclResult (*group_start)() = library.require("ncclGroupStart");
    NcclResult (*group_end)() = library.require("ncclGroupEnd");
    NcclResult (*create_premul_sum)(NcclOp*, void* scalar, NcclType, NcclScalarResidence,
                                    NcclHandle) = library.require("ncclRedOpCreatePreMulSum");
    NcclResult (*destroy_op)(NcclOp, NcclHandle) = library.require("ncclRedOpDestroy");
    NcclResult (*all_reduce)(const void*, void*, std::size_t, NcclType, NcclOp, NcclHandle,
                             CudaStream) = library.require("ncclAllReduce");
    NcclResult (*broadcast)(const void*, void*, std::size_t, NcclType, int root, NcclHandle,
                            CudaStream) = library.require("ncclBroadcast");
    NcclResult (*reduce)(const void*, void*, std::size_t, NcclType, NcclOp, int root, NcclHandle,
                         CudaStream) = library.require("ncclReduce");
    NcclResult (*all_gather)(const void*, void*, std::size_t, NcclType, NcclHandle,
                             CudaStream) = library.require("ncclAllGather");
    NcclResult (*reduce_scatter)(const void*, void*, std::size_t, NcclType, NcclOp, NcclHandle,
                                 CudaStream) = library.require("ncclReduceScatter");
    NcclResult (*send)(const void*, std::size_t, NcclType, int peer, NcclHandle,
                       CudaStream) = library.require("ncclSend");
    NcclResult (*recv)(void*, std::size_t, NcclType, int peer, NcclHandle,
                       CudaStream) = library.require("ncclRecv");
    // They are there from 2.28 on; null before.
    NcclResult (*all_to_all)(const void*, void*, std::size_t, NcclType, NcclHandle,
                             CudaStream) = library.find("ncclAlltoAll");
    NcclResult (*gather)(const void*, void*, std::size_t, NcclType, int root, NcclHandle,
                         CudaStream) = library.find("ncclGather");
    NcclResult (*scatter)(const void*, void*, std::size_t, NcclType, int root, NcclHandle,
                          CudaStream) = library.find("ncclScatter");

  private:
    explicit NcclLibrary(SharedLibrary opened) : library(std::move(opened)) {}
    int checked_version() const;
};

// "2.28.9"; of versions up to 2.8, which counted otherwise, too.
std::string nccl_version_text(int version);

NcclType nccl_type(DataType type) noexcept;
// Nothing for what NCCL does not have: band, bor, bxor. premul_sum needs an operation of its own (below).
std::optional<NcclOp> nccl_op(ReduceOp op) noexcept;

// A scalar as NCCL reads it: one element of the type.
struct NcclScalar {
    alignas(8) std::array<std::byte, 8> bytes{};
};
NcclScalar nccl_scalar(DataType type, double value) noexcept;

// The stream and the communicator that a task is enqueued for.
struct NcclLaunch {
    const NcclLibrary& nccl;
    NcclHandle handle;
    CudaStream stream;
    int rank;
    int ranks;
    NcclOp op = NcclOp::sum;
    // Device memory of the communicator: an element for barriers and operations without elements.
    void* token = nullptr;
};

// NCCL's own functions for gather, scatter and all_to_all are used from 2.28 on, before sends and receives.
NcclResult enqueue(const NcclLaunch& on, const Task& task);

}  // namespace ddprun::inline detail
