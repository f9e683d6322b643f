// SignalsBlocked keeps signals away from ddprun's own threads: signals are for the program, and must not be
// delivered to a thread that the program does not know.
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
// A process calls block_signals() once its exit code is decided, so that no signal changes the code. All
// other threads of the process block signals already.
void block_signals() noexcept;

// Runs body() on a new thread that blocks all signals. Throws std::system_error if no thread can be started.
std::thread start_without_signals(std::function<void()> body);

// Asks the scheduler for shorter and more frequent turns of the calling thread, which runs for microseconds
// and must do so at once even if all CPUs are busy. Linux 6.12 and later obey, older ones ignore the request.
// Threads of other scheduling classes stay as they are.
void ask_for_short_turns();

}  // namespace base
}  // namespace ddprun
