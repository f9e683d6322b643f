// Runs body(), which throws nothing, on a thread of the process that does nothing else meanwhile. Each body
// gets a thread at once, since it may wait for another; idle threads end after a while. Where no thread can
// be made and none is there, body() runs in the caller's.
#pragma once

#include <functional>

namespace ddprun {
inline namespace detail {

void run_beside(std::function<void()> body);

}  // namespace detail
}  // namespace ddprun
