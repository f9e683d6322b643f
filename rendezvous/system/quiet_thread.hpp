// SignalsBlocked keeps signals away from ddprun's own threads: signals are the program's, and must not be
// delivered to a thread that it does not know.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace ddprun {
inline namespace base {

// SignalsBlocked blocks all signals, while it lives, for the calling thread and for the threads that it
// starts meanwhile.
class SignalsBlocked {
  public:
    SignalsBlocked();
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;
    ~SignalsBlocked();

  private:
    sigset_t before_;
};

// Blocks all signals for the calling thread, for good, except those by which a bug of ours ends the process.
// Called once the exit code is decided, so that no signal changes it; all other threads block signals
// already.
void block_signals() noexcept;

// Runs body() on a new thread that blocks all signals. Throws std::system_error if no thread can be started.
std::thread start_without_signals(std::function<void()> body);

// Asks the scheduler for short turns of the calling thread, which come sooner: it runs for microseconds, and
// must do so at once though all CPUs are busy. Linux before 6.12 ignores the request; threads of other
// scheduling classes stay as they are.
void ask_for_short_turns();

}  // namespace base
}  // namespace ddprun
