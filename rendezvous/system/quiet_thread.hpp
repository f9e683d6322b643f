// Threads of our own block all signals: these are the program's, and must not be delivered to a thread it
// does not know of.
#pragma once

#include <signal.h>

#include <functional>
#include <thread>

namespace ddprun {
inline namespace base {

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

// Blocks for the calling thread, for good, all signals but those by which a bug of ours ends the process
// where it is. A process calls it once its exit code is decided, which no signal is to change then; all other
// threads of it are without signals already.
void block_signals() noexcept;

// Runs body() on a new thread that blocks all signals. Throws std::system_error if there can be none.
std::thread start_without_signals(std::function<void()> body);

// Asks the scheduler for short turns of the calling thread, which come sooner: it runs for microseconds, and
// is to do so at once though all CPUs are busy. Linux 6.12 and later heed it, others ignore it; changes
// nothing for a thread of another scheduling class.
void ask_for_short_turns();

}  // namespace base
}  // namespace ddprun
