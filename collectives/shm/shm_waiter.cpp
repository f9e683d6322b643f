#include "collectives/shm/shm_waiter.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <ctime>

namespace ddprun {
namespace {

using Clock = PeerMesh::Clock;

// Waking a sleeper takes 20 us and more on a virtual machine, so less is seldom worth one.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesPerLook = 64;
constexpr int kLooksPerPause = 16;
// Before a rank moves to another CPU again.
constexpr std::chrono::milliseconds kStay{10};
// About as long, where nobody else wants to run.
constexpr int kYields = 50;
// A sleep that no bell ends; nothing depends on it but the patience with a lost wake of a dying rank.
constexpr std::chrono::milliseconds kLongestSleep{50};

void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

// Says in `place`, during its life, that `value` is there.
class Marked {
  public:
    Marked(std::atomic<int>& place, int value) : place_(place) {
        place_.store(value, std::memory_order_relaxed);
    }
    ~Marked() { place_.store(0, std::memory_order_relaxed); }
    Marked(const Marked&) = delete;
    Marked& operator=(const Marked&) = delete;

  private:
    std::atomic<int>& place_;
};

// The CPUs on which at least one of the ranks may run.
int cpus_of_all(const ShmSegment& segment) {
    std::array<std::uint64_t, kShmCpuWords> all{};
    for (int rank = 0; rank < segment.world_size(); ++rank) {
        for (std::size_t i = 0; i < all.size(); ++i) all[i] |= segment.cpus(rank).words[i];
    }
    int count = 0;
    for (const std::uint64_t word : all) count += std::popcount(word);
    return count;
}

}  // namespace

ShmWaiter::ShmWaiter(const ShmSegment& segment, PeerMesh& mesh, const RankGroup& ranks)
    : segment_(segment),
      mesh_(mesh),
      ranks_(ranks),
      own_bell_(&segment.bell(ranks.index)),
      crowded_(ranks.size() > cpus_of_all(segment)),
      spins_(!crowded_ && mesh.spins()) {
    mesh_.on_news([this] { on_news(); });
}

ShmWaiter::~ShmWaiter() { mesh_.on_news({}); }

void ShmWaiter::wake(ShmBell& bell) {
    ::syscall(SYS_futex, &bell.rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ShmWaiter::on_news() {
    news_.fetch_add(1, std::memory_order_seq_cst);
    for (int rank = 0; rank < segment_.world_size(); ++rank) {
        ShmBell& bell = segment_.bell(rank);
        bell.rung.fetch_add(1, std::memory_order_seq_cst);
        wake(bell);
    }
}

void ShmWaiter::look_at_news(const PeerMesh::Operation& operation) {
    const std::uint32_t news = news_.load(std::memory_order_seq_cst);
    if (news == news_seen_) return;
    news_seen_ = news;
    mesh_.throw_if_ended(operation);
}

void ShmWaiter::wait_long(int peer, const ShmCondition& condition, PeerMesh::Operation& operation) {
    for (int i = 0; spins_ && i < kPausesPerLook; ++i) {
        // A pause takes long enough to be felt by the smallest operations.
        for (int look = 0; look < kLooksPerPause; ++look) {
            if (condition.met()) return;
        }
        pause();
    }
    settle();
    thread_local const int thread = ::gettid();
    const Marked marked(waiting_, thread);
    wait_longer(peer, condition, operation);
}

void ShmWaiter::wait_longer(int peer, const ShmCondition& condition, PeerMesh::Operation& operation) {
    if (operation.deadline == Clock::time_point::max())
        operation.deadline = Clock::now() + operation.limit.length;
    if (spins_) {
        leave_cpu_of(peer);
        if (spin(condition, operation)) return;
    }
    for (int i = 0; i < kYields; ++i) {
        if (condition.met()) return;
        look_at_news(operation);
        ::sched_yield();
    }
    while (!condition.met()) {
        look_at_news(operation);
        if (Clock::now() >= operation.deadline) mesh_.fail_late({ranks_.at(peer)}, operation);
        mesh_.linger({ranks_.at(peer)}, operation);
        wait_for_bell(peer, condition, operation.deadline);
    }
}

void ShmWaiter::leave_cpu_of(int peer) {
    const int own = ::sched_getcpu();
    const auto cpu = static_cast<std::uint32_t>(own + 1);
    if (own_bell_->cpu.load(std::memory_order_relaxed) != cpu)
        own_bell_->cpu.store(cpu, std::memory_order_relaxed);
    if (ranks_.index < peer || segment_.bell(peer).cpu.load(std::memory_order_relaxed) != cpu) return;
    const auto now = Clock::now();
    cpu_set_t all;
    if (own < 0 || now - last_move_ < kStay || ::sched_getaffinity(0, sizeof(all), &all) != 0) return;
    last_move_ = now;
    cpu_set_t others = all;
    CPU_CLR(own, &others);
    // Both may be refused; then it stays where it is.
    if (CPU_COUNT(&others) > 0 && ::sched_setaffinity(0, sizeof(others), &others) == 0)
        static_cast<void>(::sched_setaffinity(0, sizeof(all), &all));
}

bool ShmWaiter::spin(const ShmCondition& condition, PeerMesh::Operation& operation) {
    const auto limit = Clock::now() + kSpin;
    do {
        for (int i = 0; i < kPausesPerLook; ++i) {
            if (condition.met()) return true;
            pause();
        }
        look_at_news(operation);
        // The peer may have been put on this rank's CPU, where it runs only if given the chance.
        ::sched_yield();
    } while (Clock::now() < limit);
    return false;
}

void ShmWaiter::wait_for_bell(int peer, const ShmCondition& condition, Clock::time_point deadline) {
    ShmBell& bell = segment_.bell(peer);
    const auto rest = std::clamp<Clock::duration>(deadline - Clock::now(), Clock::duration(1), kLongestSleep);
    const auto nanoseconds = std::chrono::nanoseconds(rest).count();
    const timespec length{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    bell.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t rung = bell.rung.load(std::memory_order_seq_cst);
    if (!condition.met() && news_.load(std::memory_order_seq_cst) == news_seen_) {
        ::syscall(SYS_futex, &bell.rung, FUTEX_WAIT, rung, &length, nullptr, 0);
    }
    bell.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace ddprun
