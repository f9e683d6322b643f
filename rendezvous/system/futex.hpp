// Futexes in memory that processes share. Free functions, callable from any thread; man 2 futex.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace ddprun::inline base {

// Sleeps while `word` holds `value`, until somebody wakes it. May also return without cause.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ddprun::inline base
