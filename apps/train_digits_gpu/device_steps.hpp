// The steps of a training, put into a stream of the device. Implemented by device_steps.cu; in tests, on the
// host.
#pragma once

#include "apps/train_digits_gpu/steps.hpp"

namespace ddprun::inline app {

// In `stream` (a cudaStream_t) of the calling thread's current context. Null, or what went wrong.
const char* enqueue_gradients(const DeviceBatch& batch, void* stream);
const char* enqueue_update(const DeviceUpdate& update, void* stream);

}  // namespace ddprun::inline app
