// CudaDriver: the functions of the CUDA driver, found at run time, as far as communicators, ddpbench and the
// tests need them. Immutable; any thread.
//
// The primary context of a device is the one that the CUDA runtime, and so PyTorch, uses; so pointers,
// streams and events are theirs, too.
#pragma once

#include <memory>
#include <string>

#include "collectives/nccl/gpu_abi.hpp"

namespace ddprun {

struct CudaDriver {
    // Opens `path`, or if it is empty the system's libcuda.so.1, and initialises it. Throws CollectiveError
    // with code `system` if there is none, it lacks a function, or finds no device.
    static std::shared_ptr<const CudaDriver> open(const std::string& path);

    // Throws CollectiveError, code `system`, naming `what`, unless the result is success.
    void require(CudaResult result, const std::string& what) const;
    // "out of memory", or the number where the driver has no text.
    std::string text_of(CudaResult result) const;

    std::string path;

    CudaResult (*init)(unsigned int flags);
    CudaResult (*get_error_string)(CudaResult, const char**);
    CudaResult (*device_count)(int*);
    CudaResult (*device_get)(CudaDevice*, int ordinal);
    CudaResult (*device_name)(char*, int length, CudaDevice);
    CudaResult (*primary_context_retain)(CudaContext*, CudaDevice);
    CudaResult (*primary_context_release)(CudaDevice);
    CudaResult (*context_get_current)(CudaContext*);
    CudaResult (*context_set_current)(CudaContext);
    CudaResult (*stream_create)(CudaStream*, unsigned int flags);
    CudaResult (*stream_destroy)(CudaStream);
    CudaResult (*stream_query)(CudaStream);
    CudaResult (*stream_is_capturing)(CudaStream, CudaCaptureStatus*);
    CudaResult (*exchange_capture_mode)(CudaCaptureMode*);  // of the calling thread
    CudaResult (*stream_wait_event)(CudaStream, CudaEvent, unsigned int flags);
    CudaResult (*event_create)(CudaEvent*, unsigned int flags);
    CudaResult (*event_destroy)(CudaEvent);
    CudaResult (*event_record)(CudaEvent, CudaStream);
    CudaResult (*event_query)(CudaEvent);
    CudaResult (*event_elapsed)(float* milliseconds, CudaEvent begin, CudaEvent end);
    CudaResult (*memory_allocate)(CudaPointer*, std::size_t);
    CudaResult (*memory_free)(CudaPointer);
    CudaResult (*copy_to_device)(CudaPointer, const void*, std::size_t);
    CudaResult (*copy_to_host)(void*, CudaPointer, std::size_t);
    CudaResult (*copy_on_device)(CudaPointer to, CudaPointer from, std::size_t, CudaStream);
};

// A device's primary context, kept alive.
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

  private:
    std::shared_ptr<const CudaDriver> driver_;
    int ordinal_;
    CudaDevice device_ = 0;
    CudaContext context_ = nullptr;
};

// Makes a context the calling thread's current one, and its capture mode relaxed; at its end both are as
// before. Where the driver refuses (it may have ended before the process has), what is called next tells.
//
// While any thread captures a CUDA graph (in the mode `global`, which is the usual one), asking for an event
// or allocating memory is an error in every thread whose own mode is not relaxed, and spoils the graph. What
// communicators do on their own never belongs to a graph of the program, so it must not; nor may what the
// program asks of them meanwhile.
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

}  // namespace ddprun
