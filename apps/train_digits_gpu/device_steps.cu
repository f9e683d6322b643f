#include "apps/train_digits_gpu/steps.hpp"

namespace ddprun::inline app {
namespace {

constexpr unsigned kThreads = 128;

template <class Step>
__global__ void compute_all(DeviceState state, std::size_t count) {
    const std::size_t index = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (index < count) Step::compute(state, index);
}

template <class Step>
void launch(const DeviceState& state, cudaStream_t stream) {
    const std::size_t count = Step::count(state);
    if (count == 0) return;
    const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    compute_all<Step><<<blocks, kThreads, 0, stream>>>(state, count);
}

const char* trouble() {
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* enqueue_gradients(const DeviceState& state, void* stream) {
    const auto in = static_cast<cudaStream_t>(stream);
    launch<HiddenStep>(state, in);
    launch<OutputStep>(state, in);
    launch<HiddenGradientStep>(state, in);
    launch<SumStep>(state, in);
    return trouble();
}

const char* enqueue_update(const DeviceState& state, void* stream) {
    launch<UpdateStep>(state, static_cast<cudaStream_t>(stream));
    return trouble();
}

}  // namespace ddprun::inline app
