#include "apps/train_digits_gpu/steps.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr unsigned kThreads = 128;

template <class Step>
__global__ void compute_all(DeviceState state, std::size_t count) {
    const std::size_t index = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (index < count) Step::compute(state, index);
}

template <class Step>
void launch(const DeviceState& state) {
    const std::size_t count = Step::count(state);
    const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    if (blocks > 0) compute_all<Step><<<blocks, kThreads>>>(state, count);
}

}  // namespace

int launch_gradients(const DeviceState& state) {
    launch<HiddenStep>(state);
    launch<OutputStep>(state);
    launch<SumStep>(state);
    return cudaGetLastError();
}

int launch_update(const DeviceState& state) {
    launch<UpdateStep>(state);
    return cudaGetLastError();
}

}  // namespace app
}  // namespace ddprun
