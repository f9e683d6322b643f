// CudaDriver: the functions of the CUDA driver, found at run time, as far as communicators, ddpbench and the
// tests need them. Immutable; any thread.
//
// The primary context of a device is the one that the CUDA runtime, and so PyTorch, uses; so pointers,
// streams and events are theirs, too.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace detail {

// The parts of NCCL's and the CUDA driver's binary interfaces that the NCCL backend uses, declared here so
// that it builds where neither is installed. Pure.
//
// Values and layouts are those of nccl.h (2.18 on) and cuda.h (CUDA 11 on), which both libraries promise to
// keep; gpu_abi_test compares them with the headers where those are installed.

// NcclHandle: ncclComm_t.
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

// NcclOp: values from 5 on are handles of operations made by ncclRedOpCreatePreMulSum.
enum class NcclOp : int { sum = 0, prod = 1, max = 2, min = 3, avg = 4 };

enum class NcclScalarResidence : int { device = 0, host_immediate = 1 };

struct NcclUniqueId {
    std::array<char, 128> bytes{};
};

// NcclConfig: ncclConfig_t as of 2.18. NCCL reads as much of it as `size` says, and what `version` knew.
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

// CudaResult (CUresult): other values are errors, too.
enum class CudaResult : int { success = 0, not_ready = 600 };

// CudaCaptureMode (CUstreamCaptureMode): what a thread may not do while streams are captured into a CUDA
// graph.
enum class CudaCaptureMode : int { global = 0, thread_local_only = 1, relaxed = 2 };

// CudaCaptureStatus: CUstreamCaptureStatus.
enum class CudaCaptureStatus : int { none = 0, active = 1, invalidated = 2 };

// CudaDevice and the following: CUdevice, CUcontext, CUstream (which is cudaStream_t), CUevent, CUdeviceptr.
using CudaDevice = int;
using CudaContext = struct CudaContextOpaque*;
using CudaStream = struct CudaStreamOpaque*;
using CudaEvent = struct CudaEventOpaque*;
using CudaPointer = std::uintptr_t;

inline constexpr unsigned int kCudaStreamDefault = 0;
inline constexpr unsigned int kCudaEventDisableTiming = 2;

// SharedLibrary: a library that is opened at run time, and its functions by name.
//
// The library is never closed again: NCCL and the CUDA driver leave threads behind.
class SharedLibrary {
  public:
    // Opens `name`, a path or a name for the system's search. Throws CollectiveError with code `system`: what
    // the system said, and `help`.
    SharedLibrary(std::string what, const std::string& name, std::string help);

    const std::string& path() const noexcept { return path_; }

    // Address: a function's address, for a pointer to a function of any type.
    struct Address {
        template <class Function>
        operator Function*() const noexcept {
            return reinterpret_cast<Function*>(pointer);
        }
        void* pointer;
    };
    // Returns the function of that name. Throws as the constructor if there is none.
    Address require(const char* symbol) const;
    // Returns the function of that name; null if there is none.
    Address find(const char* symbol) const noexcept;

    // Ends the opening: throws CollectiveError with code `system`.
    [[noreturn]] void refuse(const std::string& why) const;

  private:
    std::string what_;
    std::string path_;
    std::string help_;
    void* handle_ = nullptr;
};

struct CudaDriver {
    // Opens `path`, or if it is empty the system's libcuda.so.1, and initialises it. Throws CollectiveError
    // with code `system` if there is none, it lacks a function, or finds no device.
    static std::shared_ptr<const CudaDriver> open(const std::string& path);

    // Throws CollectiveError, code `system`, naming `what`, unless the result is success.
    void require(CudaResult result, std::string_view what) const;
    // Returns the driver's text, as "out of memory", or the number where there is none.
    std::string text_of(CudaResult result) const;

    const SharedLibrary library;
    CudaResult (*init)(unsigned int flags) = library.require("cuInit");
    CudaResult (*get_error_string)(CudaResult, const char**) = library.require("cuGetErrorString");
    CudaResult (*device_count)(int*) = library.require("cuDeviceGetCount");
    CudaResult (*device_get)(CudaDevice*, int ordinal) = library.require("cuDeviceGet");
    CudaResult (*device_name)(char*, int length, CudaDevice) = library.require("cuDeviceGetName");
    CudaResult (*primary_context_retain)(CudaContext*,
                                         CudaDevice) = library.require("cuDevicePrimaryCtxRetain");
    CudaResult (*primary_context_release)(CudaDevice) = library.require("cuDevicePrimaryCtxRelease_v2");
    CudaResult (*context_get_current)(CudaContext*) = library.require("cuCtxGetCurrent");
    CudaResult (*context_set_current)(CudaContext) = library.require("cuCtxSetCurrent");
    CudaResult (*stream_create)(CudaStream*, unsigned int flags) = library.require("cuStreamCreate");
    CudaResult (*stream_destroy)(CudaStream) = library.require("cuStreamDestroy_v2");
    CudaResult (*stream_query)(CudaStream) = library.require("cuStreamQuery");
    CudaResult (*stream_is_capturing)(CudaStream,
                                      CudaCaptureStatus*) = library.require("cuStreamIsCapturing");
    // exchange_capture_mode concerns the calling thread.
    CudaResult (*exchange_capture_mode)(CudaCaptureMode*) =
        library.require("cuThreadExchangeStreamCaptureMode");
    CudaResult (*stream_wait_event)(CudaStream, CudaEvent,
                                    unsigned int flags) = library.require("cuStreamWaitEvent");
    CudaResult (*event_create)(CudaEvent*, unsigned int flags) = library.require("cuEventCreate");
    CudaResult (*event_destroy)(CudaEvent) = library.require("cuEventDestroy_v2");
    CudaResult (*event_record)(CudaEvent, CudaStream) = library.require("cuEventRecord");
    CudaResult (*event_query)(CudaEvent) = library.require("cuEventQuery");
    CudaResult (*event_elapsed)(float* milliseconds, CudaEvent begin,
                                CudaEvent end) = library.require("cuEventElapsedTime");
    CudaResult (*memory_allocate)(CudaPointer*, std::size_t) = library.require("cuMemAlloc_v2");
    CudaResult (*memory_free)(CudaPointer) = library.require("cuMemFree_v2");
    CudaResult (*copy_to_device)(CudaPointer, const void*, std::size_t) = library.require("cuMemcpyHtoD_v2");
    CudaResult (*copy_to_host)(void*, CudaPointer, std::size_t) = library.require("cuMemcpyDtoH_v2");
    CudaResult (*copy_on_device)(CudaPointer to, CudaPointer from, std::size_t,
                                 CudaStream) = library.require("cuMemcpyDtoDAsync_v2");

  private:
    explicit CudaDriver(SharedLibrary opened) : library(std::move(opened)) {}
};

class CudaPrimaryContext;

// CudaScope makes a context the calling thread's current one, and its capture mode relaxed; at the scope's
// end both are as before. Where the driver refuses (it may have ended before the process has), what is called
// next tells.
//
// A thread may be capturing a CUDA graph, usually in the mode `global`. Meanwhile, asking for an event or
// allocating memory is an error in every thread with another mode than relaxed, and spoils the graph. What
// communicators do on their own never belongs to a graph of the program, so it must not spoil one; nor may
// what the program asks of them meanwhile.
class CudaScope {
  public:
    explicit CudaScope(const CudaPrimaryContext& context) noexcept;
    CudaScope(const CudaScope&) = delete;
    CudaScope& operator=(const CudaScope&) = delete;
    ~CudaScope();

  private:
    const CudaPrimaryContext& context_;
    CudaContext before_ = nullptr;
    CudaCaptureMode mode_before_ = CudaCaptureMode::relaxed;
};

// CudaPrimaryContext: a device's primary context, kept alive.
class CudaPrimaryContext {
  public:
    // Throws CollectiveError, code `system`: there is no such device, or it cannot be used.
    CudaPrimaryContext(std::shared_ptr<const CudaDriver> driver, int device);
    CudaPrimaryContext(const CudaPrimaryContext&) = delete;
    CudaPrimaryContext& operator=(const CudaPrimaryContext&) = delete;
    ~CudaPrimaryContext();

    const CudaDriver& driver() const noexcept { return *driver_; }
    CudaContext get() const noexcept { return context_; }
    int device() const noexcept { return ordinal_; }
    std::string device_name() const;

    // Calls a function of the driver with the context current. Throws as CudaDriver::require().
    template <class Function, class... Arguments>
    void call(std::string_view what, Function CudaDriver::*function, Arguments... arguments) const {
        const CudaScope scope(*this);
        driver_->require((driver().*function)(arguments...), what);
    }

  private:
    std::shared_ptr<const CudaDriver> driver_;
    int ordinal_;
    CudaDevice device_ = 0;
    CudaContext context_ = nullptr;
};

// CudaMemory: memory of a device, freed with the object.
class CudaMemory {
  public:
    // CudaMemory() and the copies throw CollectiveError, code `system`. The copies return when the bytes have
    // been copied.
    CudaMemory(std::shared_ptr<const CudaPrimaryContext> context, std::size_t bytes);
    void copy_from(const void* host, std::size_t bytes, std::size_t offset = 0);
    void copy_to(void* host, std::size_t bytes, std::size_t offset = 0) const;

    CudaMemory(CudaMemory&& other) noexcept;
    CudaMemory& operator=(CudaMemory&&) = delete;
    ~CudaMemory();

    std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(pointer_); }
    CudaPointer pointer() const noexcept { return pointer_; }
    std::size_t size() const noexcept { return size_; }

    // Leaves the memory unfreed: freeing waits for the device, which may be stuck.
    void leak() noexcept { pointer_ = 0; }

  private:
    std::shared_ptr<const CudaPrimaryContext> context_;
    CudaPointer pointer_ = 0;
    std::size_t size_;
};

}  // namespace detail
}  // namespace ddprun
