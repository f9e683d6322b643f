#include "collectives/nccl/cuda_driver.hpp"

#include <array>

#include "collectives/error.hpp"
#include "collectives/nccl/shared_library.hpp"

namespace ddprun {
namespace {

constexpr const char* kDriverHelp =
    "install NVIDIA's driver, set DDPRUN_CUDA_LIBRARY to the path of its libcuda.so.1, or use "
    "DDPRUN_BACKEND=cpu";

void bind_all(const SharedLibrary& library, CudaDriver& cuda) {
    bind(library, "cuGetErrorString", cuda.get_error_string);
    bind(library, "cuDeviceGetCount", cuda.device_count);
    bind(library, "cuDeviceGet", cuda.device_get);
    bind(library, "cuDeviceGetName", cuda.device_name);
    bind(library, "cuDevicePrimaryCtxRetain", cuda.primary_context_retain);
    bind(library, "cuDevicePrimaryCtxRelease_v2", cuda.primary_context_release);
    bind(library, "cuCtxGetCurrent", cuda.context_get_current);
    bind(library, "cuCtxSetCurrent", cuda.context_set_current);
    bind(library, "cuStreamCreate", cuda.stream_create);
    bind(library, "cuStreamDestroy_v2", cuda.stream_destroy);
    bind(library, "cuStreamQuery", cuda.stream_query);
    bind(library, "cuStreamIsCapturing", cuda.stream_is_capturing);
    bind(library, "cuThreadExchangeStreamCaptureMode", cuda.exchange_capture_mode);
    bind(library, "cuStreamWaitEvent", cuda.stream_wait_event);
    bind(library, "cuEventCreate", cuda.event_create);
    bind(library, "cuEventDestroy_v2", cuda.event_destroy);
    bind(library, "cuEventRecord", cuda.event_record);
    bind(library, "cuEventQuery", cuda.event_query);
    bind(library, "cuEventElapsedTime", cuda.event_elapsed);
    bind(library, "cuMemAlloc_v2", cuda.memory_allocate);
    bind(library, "cuMemFree_v2", cuda.memory_free);
    bind(library, "cuMemcpyHtoD_v2", cuda.copy_to_device);
    bind(library, "cuMemcpyDtoH_v2", cuda.copy_to_host);
    bind(library, "cuMemcpyDtoDAsync_v2", cuda.copy_on_device);
}

}  // namespace

std::shared_ptr<const CudaDriver> CudaDriver::open(const std::string& path) {
    const SharedLibrary library("the CUDA driver", {path.empty() ? "libcuda.so.1" : path}, kDriverHelp);
    auto cuda = std::make_shared<CudaDriver>();
    cuda->path = library.path();
    bind(library, "cuInit", cuda->init);
    bind_all(library, *cuda);
    if (const CudaResult result = cuda->init(0); result != CudaResult::success) {
        library.refuse("cannot be used (" + cuda->text_of(result) + ')');
    }
    int devices = 0;
    cuda->require(cuda->device_count(&devices), "counting the devices");
    if (devices == 0) library.refuse("sees no device (CUDA_VISIBLE_DEVICES may hide them)");
    return cuda;
}

std::string CudaDriver::text_of(CudaResult result) const {
    const char* text = nullptr;
    if (get_error_string(result, &text) != CudaResult::success || text == nullptr) {
        return "CUDA error " + std::to_string(static_cast<int>(result));
    }
    return text;
}

void CudaDriver::require(CudaResult result, const std::string& what) const {
    if (result == CudaResult::success) return;
    throw CollectiveError(CollectiveErrorCode::system, what + ": the CUDA driver says: " + text_of(result));
}

CudaPrimaryContext::CudaPrimaryContext(std::shared_ptr<const CudaDriver> driver, int device)
    : driver_(std::move(driver)), ordinal_(device) {
    int count = 0;
    driver_->require(driver_->device_count(&count), "join: counting the devices");
    if (device < 0 || device >= count) {
        throw CollectiveError(CollectiveErrorCode::system,
                              "join: there is no CUDA device " + std::to_string(device) +
                                  ", this process sees " + std::to_string(count) +
                                  ": see DDPRUN_DEVICE, LOCAL_RANK and CUDA_VISIBLE_DEVICES",
                              {}, "join");
    }
    const std::string name = "join: using CUDA device " + std::to_string(device);
    driver_->require(driver_->device_get(&device_, device), name);
    driver_->require(driver_->primary_context_retain(&context_, device_), name);
}

CudaPrimaryContext::~CudaPrimaryContext() { driver_->primary_context_release(device_); }

std::string CudaPrimaryContext::device_name() const {
    std::array<char, 256> name{};
    driver_->require(driver_->device_name(name.data(), name.size() - 1, device_),
                     "asking for a device's name");
    return name.data();
}

CudaScope::CudaScope(const CudaPrimaryContext& context) noexcept : context_(context) {
    const CudaDriver& driver = context.driver();
    if (driver.context_get_current(&before_) != CudaResult::success) before_ = context.get();
    if (before_ != context.get()) driver.context_set_current(context.get());
    driver.exchange_capture_mode(&mode_before_);
}

CudaScope::~CudaScope() {
    context_.driver().exchange_capture_mode(&mode_before_);
    if (before_ != context_.get()) context_.driver().context_set_current(before_);
}

}  // namespace ddprun
