// Threads of our own: signals are the program's, and must not be delivered to a thread it does not know of.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace ddprun::inline base {

// Blocks all signals for the calling thread, and for those that it starts meanwhile, as long as it lives.
class SignalsBlocked {
  public:
    SignalsBlocked();
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;
    ~SignalsBlocked();

  private:
    sigset_t before_;
};

// Runs body() on a new thread that blocks all signals. Throws std::system_error if there can be none.
std::thread start_without_signals(std::function<void()> body);

}  // namespace ddprun::inline base
