// device_steps.cu on the host, for NCCL's stand-in, whose device memory is the host's: the arithmetic is the
// same.
#include "apps/train_digits_gpu/steps.hpp"

namespace ddprun {
inline namespace app {
namespace {

template <class Step>
void compute_all(const DeviceState& state) {
    for (std::size_t index = 0; index < Step::count(state); ++index) Step::compute(state, index);
}

}  // namespace

int launch_gradients(const DeviceState& state) {
    compute_all<HiddenStep>(state);
    compute_all<OutputStep>(state);
    compute_all<SumStep>(state);
    return 0;
}

int launch_update(const DeviceState& state) {
    compute_all<UpdateStep>(state);
    return 0;
}

}  // namespace app
}  // namespace ddprun
