#include "collectives/nccl/cuda_driver.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <array>
#include <climits>
#include <utility>

#include "collectives/error.hpp"

namespace ddprun {
inline namespace detail {

namespace {

[[noreturn]] void fail(const std::string& text) {
    throw CollectiveError(CollectiveErrorCode::system, "join: " + text, {}, "join");
}

std::string path_of(void* handle, const std::string& name) {
    if (name.find('/') != std::string::npos) return name;
    std::array<char, PATH_MAX> folder{};
    if (::dlinfo(handle, RTLD_DI_ORIGIN, folder.data()) != 0) return name;
    return fmt::format("{}/{}", folder.data(), name);
}

}  // namespace

SharedLibrary::SharedLibrary(std::string what, const std::string& name, std::string help)
    : what_(std::move(what)), help_(std::move(help)), handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
        const char* said = ::dlerror();
        fail(fmt::format("{} cannot be opened ({}): {}", what_, said != nullptr ? said : name, help_));
    }
    path_ = path_of(handle_, name);
}

SharedLibrary::Address SharedLibrary::find(const char* symbol) const noexcept {
    return {::dlsym(handle_, symbol)};
}

SharedLibrary::Address SharedLibrary::require(const char* symbol) const {
    const Address address = find(symbol);
    if (address.pointer == nullptr) refuse(fmt::format("has no function {}", symbol));
    return address;
}

void SharedLibrary::refuse(const std::string& why) const {
    fail(fmt::format("{}, opened as {}, {}: {}", what_, path_, why, help_));
}

std::shared_ptr<const CudaDriver> CudaDriver::open(const std::string& path) {
    constexpr const char* kHelp =
        "install NVIDIA's driver, set DDPRUN_CUDA_LIBRARY to the path of its libcuda.so.1, or use "
        "DDPRUN_BACKEND=cpu";
    std::shared_ptr<const CudaDriver> cuda(
        new CudaDriver({"the CUDA driver", path.empty() ? "libcuda.so.1" : path, kHelp}));
    if (const CudaResult result = cuda->init(0); result != CudaResult::success)
        cuda->library.refuse(fmt::format("cannot be used ({})", cuda->text_of(result)));
    int devices = 0;
    cuda->require(cuda->device_count(&devices), "counting the devices");
    if (devices == 0) cuda->library.refuse("sees no device (CUDA_VISIBLE_DEVICES may hide them)");
    return cuda;
}

std::string CudaDriver::text_of(CudaResult result) const {
    const char* text = nullptr;
    if (get_error_string(result, &text) != CudaResult::success || text == nullptr) {
        return fmt::format("CUDA error {}", static_cast<int>(result));
    }
    return text;
}

void CudaDriver::require(CudaResult result, std::string_view what) const {
    if (result == CudaResult::success) return;
    throw CollectiveError(CollectiveErrorCode::system,
                          fmt::format("{}: the CUDA driver says: {}", what, text_of(result)));
}

CudaPrimaryContext::CudaPrimaryContext(std::shared_ptr<const CudaDriver> driver, int device)
    : driver_(std::move(driver)), ordinal_(device) {
    int count = 0;
    driver_->require(driver_->device_count(&count), "join: counting the devices");
    if (device < 0 || device >= count) {
        throw CollectiveError(CollectiveErrorCode::system,
                              fmt::format("join: there is no CUDA device {}, this process sees {}: see "
                                          "DDPRUN_DEVICE, LOCAL_RANK and CUDA_VISIBLE_DEVICES",
                                          device, count),
                              {}, "join");
    }
    const std::string name = fmt::format("join: using CUDA device {}", device);
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

CudaMemory::CudaMemory(std::shared_ptr<const CudaPrimaryContext> context, std::size_t bytes)
    : context_(std::move(context)), size_(bytes) {
    if (bytes == 0) return;
    context_->call(fmt::format("allocating {} bytes of device memory", bytes), &CudaDriver::memory_allocate,
                   &pointer_, bytes);
}

CudaMemory::CudaMemory(CudaMemory&& other) noexcept
    : context_(std::move(other.context_)), pointer_(std::exchange(other.pointer_, 0)), size_(other.size_) {}

CudaMemory::~CudaMemory() {
    if (pointer_ == 0) return;
    const CudaScope scope(*context_);
    context_->driver().memory_free(pointer_);
}

void CudaMemory::copy_from(const void* host, std::size_t bytes, std::size_t offset) {
    if (bytes == 0) return;
    context_->call("copying to the device", &CudaDriver::copy_to_device, pointer_ + offset, host, bytes);
}

void CudaMemory::copy_to(void* host, std::size_t bytes, std::size_t offset) const {
    if (bytes == 0) return;
    context_->call("copying from the device", &CudaDriver::copy_to_host, host, pointer_ + offset, bytes);
}

}  // namespace detail
}  // namespace ddprun
