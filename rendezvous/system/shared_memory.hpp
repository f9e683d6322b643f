// ShmMapping is memory that processes of one host share; the functions wait on futexes in it (man 2 futex).
// Any thread.
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

// Lets the CPU pause between two looks at memory.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

// Returns the system's page size: 4 KiB on most machines, 64 KiB on some of ARM.
std::size_t page_size();

// Sleeps while `word` holds `value`, until woken. May also return without cause.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}

// Sleeps like futex_wait(), but for `length` at most; `length` is above 0.
inline void futex_wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                           std::chrono::nanoseconds length) {
    const timespec time{length.count() / 1'000'000'000, length.count() % 1'000'000'000};
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Separates two threads that wait for each other on one CPU though more are free: the scheduler would notice
// later than many programs run. Writes the calling thread's CPU, plus one, into `own`. If `other` holds the
// same and `stays` is false, moves the thread to another CPU, at most every 10 ms.
void leave_cpu_of(const std::atomic<std::uint32_t>& other, std::atomic<std::uint32_t>& own, bool stays);

// RobustFutex tells the kernel to mark a word in shared memory when the calling thread ends, in any way.
//
// If the word then holds the thread's number, the kernel sets FUTEX_OWNER_DIED in it and wakes one sleeper,
// before it frees the process's memory. A RobustFutex replaces the C library's list of robust mutexes, of
// which the thread must hold none. The same thread makes and destroys it.
// docs.kernel.org/locking/robust-futex-ABI.html.
class RobustFutex {
  public:
    explicit RobustFutex(std::atomic<std::uint32_t>& word);
    ~RobustFutex();
    RobustFutex(const RobustFutex&) = delete;
    RobustFutex& operator=(const RobustFutex&) = delete;

    // Says whether the kernel accepted the registration.
    bool set() const noexcept { return set_; }

  private:
    robust_list_head head_{};
    robust_list entry_{};
    robust_list_head* before_ = nullptr;
    std::size_t before_size_ = 0;
    bool set_ = false;
};

// kShmByNumber stands in place of a pid where the descriptor is a number of System V's shared memory.
inline constexpr std::int32_t kShmByNumber = -1;

// ShmOffer says where other processes find the creator's descriptor. pid 0: no offer.
struct ShmOffer {
    std::int32_t pid = 0;
    std::int32_t descriptor = -1;
};

// ShmMapping maps a memfd: never a file in any directory, not limited by the size of /dev/shm, and gone with
// the last process that maps it, however that ends. Seals against shrinking keep every access from failing
// with SIGBUS for its size.
//
// Other processes open the memfd as /proc/PID/fd/N. No listening socket is needed which strangers could find,
// and the kernel lets in only processes that may inspect this one: the same user's. A process of that PID in
// another namespace is told apart by the kind of file, its seals and its size. A caller that must be sure
// writes something into the memory.
//
// Processes that do not see each other, as in containers, use System V's memory, if they share an IPC
// namespace. A file in /dev/shm has a name that outlives a kill, can be shrunk, and may have no room. The
// memory is marked to go with its last mapping before its number is told; Linux lets others map it even then
// (man 2 shmctl).
class ShmMapping {
  public:
    // Makes and maps `size` bytes of zeros, size > 0; nothing where the system refuses. /proc/PID/maps shows
    // `name`, which begins with "ddprun-". Keeps the descriptor until close_offer().
    static std::optional<ShmMapping> create(const char* name, std::size_t size);
    // Makes memory like create(), for processes that do not see this one: System V's, offered by its number.
    static std::optional<ShmMapping> create_by_number(std::size_t size);
    // Maps the offered memory; nothing if it cannot be had or has less than `least` bytes. Maps all of a
    // larger memory, or `least` bytes if that fails; System V's is always mapped as a whole.
    static std::optional<ShmMapping> open(const ShmOffer& offer, std::size_t least);

    ShmOffer offer() const noexcept;
    // Closes the descriptor; the mapping stays.
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
    int number_ = -1;  // of System V's memory; -1: none
    std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace base
}  // namespace ddprun
