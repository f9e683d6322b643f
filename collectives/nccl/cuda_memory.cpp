#include "collectives/nccl/cuda_memory.hpp"

#include <string>
#include <utility>

namespace ddprun {

CudaMemory::CudaMemory(std::shared_ptr<const CudaPrimaryContext> context, std::size_t bytes)
    : context_(std::move(context)), size_(bytes) {
    if (bytes == 0) return;
    const CudaScope scope(*context_);
    context_->driver().require(context_->driver().memory_allocate(&pointer_, bytes),
                               "allocating " + std::to_string(bytes) + " bytes of device memory");
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
    const CudaScope scope(*context_);
    context_->driver().require(context_->driver().copy_to_device(pointer_ + offset, host, bytes),
                               "copying to the device");
}

void CudaMemory::copy_to(void* host, std::size_t bytes, std::size_t offset) const {
    if (bytes == 0) return;
    const CudaScope scope(*context_);
    context_->driver().require(context_->driver().copy_to_host(host, pointer_ + offset, bytes),
                               "copying from the device");
}

}  // namespace ddprun
