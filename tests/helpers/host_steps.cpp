// device_steps.cu on the host, for NCCL's stand-in, whose device memory is the host's: the arithmetic is the
// same.
#include <cstdlib>
#include <thread>

#include "apps/train_digits_gpu/device_steps.hpp"
#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun::inline app {
namespace {

// A stream does things in order: what is in it comes first.
void wait_for(void* stream) {
    const auto cuda = CudaDriver::open(std::getenv("DDPRUN_CUDA_LIBRARY"));
    while (cuda->stream_query(static_cast<CudaStream>(stream)) == CudaResult::not_ready)
        std::this_thread::yield();
}

template <class Step, class Data>
void compute_all(const Data& data) {
    for (std::size_t index = 0; index < Step::count(data); ++index) Step::compute(data, index);
}

}  // namespace

const char* enqueue_gradients(const DeviceBatch& batch, void* stream) {
    wait_for(stream);
    compute_all<HiddenStep>(batch);
    compute_all<OutputStep>(batch);
    compute_all<HiddenGradientStep>(batch);
    compute_all<SumStep>(batch);
    return nullptr;
}

const char* enqueue_update(const DeviceUpdate& update, void* stream) {
    wait_for(stream);
    compute_all<UpdateStep>(update);
    return nullptr;
}

}  // namespace ddprun::inline app
