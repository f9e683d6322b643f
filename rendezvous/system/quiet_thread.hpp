// Threads of the library's own: signals are the program's, and must not be delivered to a thread it does not
// know of.
#pragma once

#include <functional>
#include <thread>

namespace ddprun {

// Runs body() on a new thread that blocks all signals. Throws std::system_error if there can be none.
std::thread start_without_signals(std::function<void()> body);

}  // namespace ddprun
