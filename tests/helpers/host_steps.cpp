// device_steps.cu on the host, for NCCL's stand-in, whose device memory is the host's: the arithmetic is the
// same.
#include <cstdlib>
#include <thread>

#include "apps/train_digits_gpu/steps.hpp"
#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun::inline app {
namespace {

// A stream does things in order: what is in it comes first.
void wait_for(void* stream) {
    const auto cuda = CudaDriver::open(std::getenv("DDPRUN_CUDA_LIBRARY"));
    while (cuda->stream_query(static_cast<CudaStream>(stream)) == CudaResult::not_ready)
        std::this_thread::yield();
}

template <class Step>
void compute_all(const DeviceState& state) {
    for (std::size_t index = 0; index < Step::count(state); ++index) Step::compute(state, index);
}

}  // namespace

const char* enqueue_gradients(const DeviceState& state, void* stream) {
    wait_for(stream);
    compute_all<HiddenStep>(state);
    compute_all<OutputStep>(state);
    compute_all<HiddenGradientStep>(state);
    compute_all<SumStep>(state);
    return nullptr;
}

const char* enqueue_update(const DeviceState& state, void* stream) {
    wait_for(stream);
    compute_all<UpdateStep>(state);
    return nullptr;
}

}  // namespace ddprun::inline app
