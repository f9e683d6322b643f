// Memory that processes of one host share, and futexes in it (man 2 futex). Any thread may call these.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

// Lets the CPU rest for a moment between two looks at memory.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

// The system's: 4 KiB on most machines, 64 KiB on some of ARM.
std::size_t page_size();

// Sleeps while `word` holds `value`, until somebody wakes it. May also return without cause.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}

// The same for so long at most, longer than nothing.
inline void futex_wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                           std::chrono::nanoseconds length) {
    const timespec time{length.count() / 1'000'000'000, length.count() % 1'000'000'000};
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// For two that wait for each other and may have been put on one CPU though there are more: they would take
// turns until the system notices, which takes it longer than many programs run. Writes into `own` the CPU,
// plus one, on which the calling thread waits; if `other` is the same, and this one is not the one who stays,
// moves the thread to another CPU, at most every 10 ms.
void leave_cpu_of(const std::atomic<std::uint32_t>& other, std::atomic<std::uint32_t>& own, bool stays);

// RobustFutex tells the kernel to mark a word in shared memory when the calling thread ends, in any way.
//
// It sets FUTEX_OWNER_DIED in the word, if the word has this thread's number in it, and wakes one who sleeps
// on it, before it frees the process's memory. It stands in the place of the C library's list of robust
// mutexes, of which the thread must have none; made and destroyed by that thread.
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

inline constexpr std::int32_t kShmByNumber = -1;  // a pid: where the descriptor is a number of System V's

// ShmOffer says where the creator's descriptor can be found. pid 0: there is none.
struct ShmOffer {
    std::int32_t pid = 0;
    std::int32_t descriptor = -1;
};

// ShmMapping is memory that several processes of one host have mapped.
//
// It is a memfd: never a file in any directory, not limited by the size of /dev/shm, and gone with the last
// process that maps it, however that ends. It is sealed against shrinking, so no access can ever fail with
// SIGBUS for its size.
//
// The others open it as /proc/PID/fd/N. That needs no listening socket which strangers could find, and the
// kernel lets in only who may inspect the process: the same user. Another process of that number, in another
// PID namespace, is told apart by the kind of file, its seals and its size; a caller that needs to be
// sure puts something into it.
//
// Processes that do not see each other, as those of containers, have System V's memory instead, if they share
// an IPC namespace: a file in /dev/shm has a name that a kill leaves behind, can be shrunk, and may have no
// room. It is marked to go with the last process that maps it before anybody is told its number; Linux lets
// others map it even then (man 2 shmctl).
class ShmMapping {
  public:
    // Makes and maps `size` bytes of zeros, size > 0; nothing where the system refuses. /proc/PID/maps shows
    // `name`, which begins with "ddprun-". Keeps the descriptor until close_offer().
    static std::optional<ShmMapping> create(const char* name, std::size_t size);
    // The same for processes that do not see this one: memory without a name, which is offered by its number.
    static std::optional<ShmMapping> create_by_number(std::size_t size);
    // Maps the one offered; nothing if it cannot be had or has less than `least` bytes. Where it has more,
    // maps all, or else those; of System V's, all.
    static std::optional<ShmMapping> open(const ShmOffer& offer, std::size_t least);

    ShmOffer offer() const noexcept;
    // The mapping stays.
    void close_offer() { descriptor_.reset(); }

    std::byte* base() const noexcept { return memory_.get(); }
    std::size_t size() const noexcept { return memory_.get_deleter().size; }

  private:
    struct Unmap {
        std::size_t size;
        void operator()(std::byte* base) const noexcept;
    };

    ShmMapping(OwnedDescriptor descriptor, std::size_t size);
    static std::optional<ShmMapping> open_by_number(int number, std::size_t least);
    bool map();

    OwnedDescriptor descriptor_;
    int number_ = -1;  // System V's; -1: there is none
    std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace base
}  // namespace ddprun
