// NcclLibrary: NCCL's functions, found at run time. Immutable; any thread.
//
// Nothing of ddprun links with NCCL, so its programs start everywhere, and only a communicator that asks for
// the NCCL backend needs it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "collectives/nccl/cuda_driver.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

// kMinNcclVersion: before 2.19, ncclCommAbort could hang when another thread was using the communicator (NCCL
// issue 1013). Before 2.24 a send or receive may be reported as launched before it is (NCCL issue 1495), but
// only of non-blocking communicators, which NcclComm does not make.
inline constexpr int kMinNcclVersion = 21900;

// Finds the libnccl.so.2 that a Python package has brought along (nvidia/nccl/lib in a folder of packages);
// empty: none. In this order: the folders of PYTHONPATH; those of the interpreter that is `program` (argv[0]
// of this process), of PYTHON_EXEC, of VIRTUAL_ENV, of CONDA_PREFIX, and of the first python3 on PATH; the
// user's own and the machine's. Of several versions of Python the newest. Runs no interpreter.
std::string packaged_nccl(const Environment& environment, const std::string& program);

struct NcclLibrary {
    // Opens `path`, or if it is empty the system's libnccl.so.2, or else the one of a Python package. Throws
    // CollectiveError with code `system` if there is none, it is too old, or it lacks a function.
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
    // all_to_all, gather and scatter are there from 2.28 on; null before.
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

// Returns the version as text: "2.28.9"; of versions up to 2.8, which counted otherwise, too.
std::string nccl_version_text(int version);

}  // namespace detail
}  // namespace ddprun
