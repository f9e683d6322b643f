#include "apps/train_digits_gpu/device_steps.hpp"

namespace ddprun::inline app {
namespace {

constexpr unsigned kThreads = 128;

template <class Step, class Data>
__global__ void compute_all(Data data, std::size_t count) {
    const std::size_t index = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (index < count) Step::compute(data, index);
}

template <class Step, class Data>
void launch(const Data& data, cudaStream_t stream) {
    const std::size_t count = Step::count(data);
    if (count == 0) return;
    const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    compute_all<Step><<<blocks, kThreads, 0, stream>>>(data, count);
}

const char* trouble() {
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace

const char* enqueue_gradients(const DeviceBatch& batch, void* stream) {
    const auto in = static_cast<cudaStream_t>(stream);
    launch<HiddenStep>(batch, in);
    launch<OutputStep>(batch, in);
    launch<HiddenGradientStep>(batch, in);
    launch<SumStep>(batch, in);
    return trouble();
}

const char* enqueue_update(const DeviceUpdate& update, void* stream) {
    launch<UpdateStep>(update, static_cast<cudaStream_t>(stream));
    return trouble();
}

}  // namespace ddprun::inline app
