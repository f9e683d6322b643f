// The parts of NCCL's and the CUDA driver's binary interfaces that the NCCL backend uses, declared here so
// that it builds where neither is installed. Pure.
//
// Values and layouts are those of nccl.h (2.18 on) and cuda.h (CUDA 11 on), which both libraries promise to
// keep; gpu_abi_test compares them with the headers where those are installed.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>

namespace ddprun::inline detail {

// ncclComm_t
using NcclHandle = struct NcclOpaque*;

enum class NcclResult : int {
    success = 0,
    unhandled_cuda_error = 1,
    system_error = 2,
    internal_error = 3,
    invalid_argument = 4,
    invalid_usage = 5,
    remote_error = 6,
    in_progress = 7,
};

enum class NcclType : int {
    int8 = 0,
    uint8 = 1,
    int32 = 2,
    uint32 = 3,
    int64 = 4,
    uint64 = 5,
    float16 = 6,
    float32 = 7,
    float64 = 8,
    bfloat16 = 9,
};

// Values from 5 on are handles of operations made by ncclRedOpCreatePreMulSum.
enum class NcclOp : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };

enum class NcclScalarResidence : int { device = 0, host_immediate = 1 };

struct NcclUniqueId {
    std::array<char, 128> bytes{};
};

// ncclConfig_t as of 2.18. NCCL reads as much of it as `size` says, and what `version` knew.
struct NcclConfig {
    static constexpr int kUndefined = INT_MIN;

    std::size_t size = sizeof(NcclConfig);
    unsigned int magic = 0xcafebeef;
    unsigned int version = 21800;
    int blocking = kUndefined;
    int cga_cluster_size = kUndefined;
    int min_ctas = kUndefined;
    int max_ctas = kUndefined;
    const char* net_name = nullptr;
    int split_share = kUndefined;
};

// CUresult; other values are errors, too.
enum class CudaResult : int { success = 0, not_ready = 600 };

// CUstreamCaptureMode: what a thread may not do while streams are captured into a CUDA graph.
enum class CudaCaptureMode : int { global = 0, thread_local_only = 1, relaxed = 2 };

// CUstreamCaptureStatus
enum class CudaCaptureStatus : int { none = 0, active = 1, invalidated = 2 };

// CUdevice, CUcontext, CUstream (which is cudaStream_t), CUevent, CUdeviceptr
using CudaDevice = int;
using CudaContext = struct CudaContextOpaque*;
using CudaStream = struct CudaStreamOpaque*;
using CudaEvent = struct CudaEventOpaque*;
using CudaPointer = std::uintptr_t;

inline constexpr unsigned int kCudaStreamDefault = 0;
inline constexpr unsigned int kCudaEventDisableTiming = 2;

}  // namespace ddprun::inline detail
