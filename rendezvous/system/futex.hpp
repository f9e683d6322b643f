// These are futexes in memory that processes share (man 2 futex). Any thread may call them.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>

namespace ddprun::inline base {

// Sleeps while `word` holds `value`, until somebody wakes it. May also return without cause.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// RobustFutex tells the kernel to mark a word in shared memory when the calling thread ends, in any way.
//
// It sets FUTEX_OWNER_DIED in the word, if the word has this thread's number in it, and wakes one who sleeps
// on it, before it frees the process's memory. It stands in the place of the C library's list of robust mutexes,
// of which the thread must have none; made and destroyed by that thread.
// docs.kernel.org/locking/robust-futex-ABI.html.

class RobustFutex {
  public:
    explicit RobustFutex(std::atomic<std::uint32_t>& word);
    ~RobustFutex();
    RobustFutex(const RobustFutex&) = delete;
    RobustFutex& operator=(const RobustFutex&) = delete;

    // False where the system refuses.
    bool set() const noexcept { return set_; }

  private:
    robust_list_head head_{};
    robust_list entry_{};
    robust_list_head* before_ = nullptr;
    std::size_t before_size_ = 0;
    bool set_ = false;
};

}  // namespace ddprun::inline base
