// CudaMemory: memory of a device, freed with the object.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun {

class CudaMemory {
  public:
    // Both throw CollectiveError, code `system`, as do the copies; those return when the bytes have been
    // copied.
    CudaMemory(std::shared_ptr<const CudaPrimaryContext> context, std::size_t bytes);
    void copy_from(const void* host, std::size_t bytes, std::size_t offset = 0);
    void copy_to(void* host, std::size_t bytes, std::size_t offset = 0) const;

    CudaMemory(CudaMemory&& other) noexcept;
    CudaMemory& operator=(CudaMemory&&) = delete;
    ~CudaMemory();

    std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(pointer_); }
    CudaPointer pointer() const noexcept { return pointer_; }
    std::size_t size() const noexcept { return size_; }

    // Not freed any more: freeing waits for the device, which may be stuck.
    void leak() noexcept { pointer_ = 0; }

  private:
    std::shared_ptr<const CudaPrimaryContext> context_;
    CudaPointer pointer_ = 0;
    std::size_t size_;
};

}  // namespace ddprun
