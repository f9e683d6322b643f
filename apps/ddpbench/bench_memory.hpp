// Where ddpbench's operations read and write: memory of this host, or of this rank's device with a copy here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.hpp"
#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun::inline app {

// The device that a communicator's buffers are on; nothing for the CPU's backends. From the communicator's
// own choice and the same variables. Throws CollectiveError.
std::shared_ptr<const CudaPrimaryContext> device_of(const Communicator& communicator);

class BenchMemory {
  public:
    // On the device if there is one; `shared`, if it has bytes, is the host's. Throws CollectiveError or
    // std::bad_alloc.
    BenchMemory(std::shared_ptr<const CudaPrimaryContext> device, std::size_t bytes,
                SharedBuffer<unsigned char> shared = {});
    BenchMemory(const BenchMemory&) = delete;
    BenchMemory& operator=(const BenchMemory&) = delete;
    ~BenchMemory();

    // For the operations.
    std::byte* data() const { return device_ ? device_->data() : host_; }
    bool holds(const void* place) const;
    // The host's view of a place in data(): written to, it counts after push; read, it is true after pull.
    std::byte* host_view(const void* place) const;
    void push(const void* place, std::size_t bytes);
    void pull(const void* place, std::size_t bytes);

  private:
    std::size_t offset_of(const void* place) const;

    std::size_t bytes_;
    SharedBuffer<unsigned char> shared_;
    std::byte* host_;
    std::unique_ptr<CudaMemory> device_;
};

}  // namespace ddprun::inline app
