// NcclLibrary: NCCL's functions, found at run time. Immutable; any thread.
//
// Nothing of ddprun links with NCCL, so its programs start everywhere, and only a communicator that asks for
// the NCCL backend needs it.
#pragma once

#include <memory>
#include <string>

#include "collectives/nccl/gpu_abi.hpp"

namespace ddprun {

// Before 2.19, ncclCommAbort could hang when another thread was using the communicator (NCCL issue 1013).
// That before 2.24 a send or receive may be reported as launched before it is (NCCL issue 1495) is true of
// non-blocking communicators only, which nccl_comm.hpp does not make.
inline constexpr int kMinNcclVersion = 21900;

struct NcclLibrary {
    // Opens `path`, or if it is empty the system's libnccl.so.2. Throws CollectiveError with code `system` if
    // there is none, it is too old, or it lacks a function.
    static std::shared_ptr<const NcclLibrary> open(const std::string& path);

    std::string path;
    int version = 0;  // 22809 is 2.28.9

    NcclResult (*get_version)(int*);
    NcclResult (*get_unique_id)(NcclUniqueId*);
    NcclResult (*init_rank_config)(NcclHandle*, int ranks, NcclUniqueId, int rank, NcclConfig*);
    NcclResult (*finalize)(NcclHandle);
    NcclResult (*destroy)(NcclHandle);
    NcclResult (*abort)(NcclHandle);
    NcclResult (*get_async_error)(NcclHandle, NcclResult*);
    const char* (*get_error_string)(NcclResult);
    const char* (*get_last_error)(NcclHandle);
    NcclResult (*group_start)();
    NcclResult (*group_end)();
    NcclResult (*create_premul_sum)(NcclOp*, void* scalar, NcclType, NcclScalarResidence, NcclHandle);
    NcclResult (*destroy_op)(NcclOp, NcclHandle);
    NcclResult (*all_reduce)(const void*, void*, std::size_t, NcclType, NcclOp, NcclHandle, CudaStream);
    NcclResult (*broadcast)(const void*, void*, std::size_t, NcclType, int root, NcclHandle, CudaStream);
    NcclResult (*reduce)(const void*, void*, std::size_t, NcclType, NcclOp, int root, NcclHandle, CudaStream);
    NcclResult (*all_gather)(const void*, void*, std::size_t, NcclType, NcclHandle, CudaStream);
    NcclResult (*reduce_scatter)(const void*, void*, std::size_t, NcclType, NcclOp, NcclHandle, CudaStream);
    NcclResult (*send)(const void*, std::size_t, NcclType, int peer, NcclHandle, CudaStream);
    NcclResult (*recv)(void*, std::size_t, NcclType, int peer, NcclHandle, CudaStream);
    // From 2.28 on; null before.
    NcclResult (*all_to_all)(const void*, void*, std::size_t, NcclType, NcclHandle, CudaStream);
    NcclResult (*gather)(const void*, void*, std::size_t, NcclType, int root, NcclHandle, CudaStream);
    NcclResult (*scatter)(const void*, void*, std::size_t, NcclType, int root, NcclHandle, CudaStream);
};

// "2.28.9"; of versions up to 2.8, which counted otherwise, too.
std::string nccl_version_text(int version);

}  // namespace ddprun
