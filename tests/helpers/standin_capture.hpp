// CUDA graph capture in the driver's stand-in: which streams are captured, and what nobody may do meanwhile.
// What comes into a captured stream is recorded nowhere; it only does not happen.
#pragma once

#include "collectives/nccl/cuda_driver.hpp"

namespace ddprun {
namespace standin {

inline constexpr auto kCaptureUnsupported = static_cast<CudaResult>(900);
inline constexpr auto kCaptureInvalidated = static_cast<CudaResult>(901);
inline constexpr auto kCapturedEvent = static_cast<CudaResult>(907);

bool is_captured(CudaStream stream);

// What a call returns that CUDA holds potentially unsafe: success where the calling thread may make it now.
// Else the captures in whose way it came have failed.
CudaResult allowed_beside_captures();

}  // namespace standin
}  // namespace ddprun
