#include "apps/ddpbench/bench_memory.hpp"

#include <new>

#include "collectives/nccl/nccl_join.hpp"

namespace ddprun::inline app {
namespace {

// Page-aligned, as large buffers of real programs are.
constexpr std::align_val_t kAlignment{4096};

}  // namespace

std::shared_ptr<const CudaPrimaryContext> device_of(const Communicator& communicator) {
    if (communicator.backend() != BackendChoice::nccl) return nullptr;
    CommunicatorOptions options;
    options.backend = BackendChoice::nccl;
    options.device = communicator.device();
    const auto settings = read_nccl_settings(current_environment(), options, communicator.local_rank());
    return std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings->cuda_library), settings->device);
}

BenchMemory::BenchMemory(std::shared_ptr<const CudaPrimaryContext> device, std::size_t bytes,
                         SharedBuffer<unsigned char> shared)
    : bytes_(bytes),
      shared_(std::move(shared)),
      host_(shared_.size() > 0 ? reinterpret_cast<std::byte*>(shared_.data())
                               : static_cast<std::byte*>(::operator new(bytes + 1, kAlignment))) {
    if (device) device_ = std::make_unique<CudaMemory>(std::move(device), bytes);
}

BenchMemory::~BenchMemory() {
    if (shared_.size() == 0) ::operator delete(host_, kAlignment);
}

std::size_t BenchMemory::offset_of(const void* place) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(place) - data());
}

bool BenchMemory::holds(const void* place) const { return offset_of(place) < bytes_; }

std::byte* BenchMemory::host_view(const void* place) const { return host_ + offset_of(place); }

void BenchMemory::push(const void* place, std::size_t bytes) {
    if (device_) device_->copy_from(host_view(place), bytes, offset_of(place));
}

void BenchMemory::pull(const void* place, std::size_t bytes) {
    if (device_) device_->copy_to(host_view(place), bytes, offset_of(place));
}

}  // namespace ddprun::inline app
