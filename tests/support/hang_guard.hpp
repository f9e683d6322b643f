// How long a test waits for what must come, before it calls that a hang.
#pragma once

#include <chrono>

namespace ddprun {

inline constexpr std::chrono::seconds kHangGuard{60};

}  // namespace ddprun
