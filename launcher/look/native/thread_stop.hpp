// copy_running_thread() copies the registers and the top of the stack of a thread that runs, which no other
// way shows, and stops it for as long as that takes: a tenth of a millisecond, kMaxStop at the most.
//
// Only a thread in state R is stopped, and only that one: a thread in state D never comes to a stop, and one
// that sleeps shows another system call afterwards. A thread that does not stop in time is left alone, and is
// not traced any more.
//
// For the agent, which is an ancestor of its workers (Yama wants that), on any of its threads. The agent's
// reaper stays the one that takes exit statuses: the wait here takes stops alone, never an end. A stop is
// told by a SIGCHLD, as an end is; the reaper leaves it (reap_ended() in launcher/process/sweeper.cpp), and a
// further SIGCHLD afterwards makes it look for what it left behind it. SIGURG gets a handler that does
// nothing, and is what ends a wait.
#pragma once

#include <sys/types.h>

#include <boost/system/result.hpp>
#include <chrono>
#include <cstddef>
#include <vector>

#include "launcher/look/mappings.hpp"
#include "launcher/look/memory_reader.hpp"
#include "launcher/look/native/thread_registers.hpp"

namespace ddprun {
inline namespace launch {

struct StoppedThread {
    ThreadRegisters registers;
    std::uintptr_t begin = 0;  // of the stack that was copied
    std::vector<std::byte> stack;
    std::chrono::nanoseconds stopped{};  // how long
};

inline constexpr std::chrono::milliseconds kMaxStop{50};
inline constexpr std::size_t kMaxCopiedStack = 256UL * 1024;

// Fails with EBUSY for a thread that does not run, with ETIMEDOUT for one that did not stop, else with the
// system's error: EPERM where it may not be traced, or is.
boost::system::result<StoppedThread> copy_running_thread(pid_t process, pid_t thread,
                                                         const std::vector<Mapping>& mappings,
                                                         const MemoryReader& memory);

// StackCopy reads what was copied, and everything else from the process's memory.
class StackCopy final : public MemoryReader {
  public:
    // StackCopy does not own what it reads.
    StackCopy(const StoppedThread& copy, const MemoryReader& memory) : copy_(copy), memory_(memory) {}

    bool read(std::uintptr_t address, std::span<std::byte> into) const override;

  private:
    const StoppedThread& copy_;
    const MemoryReader& memory_;
};

}  // namespace launch
}  // namespace ddprun
