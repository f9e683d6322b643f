#include "collectives/shm/shm_waiter.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

namespace ddprun::inline detail {
namespace {

using Clock = Deadline::clock;

// Waking a sleeper takes 20 us and more on a virtual machine, so less is seldom worth one.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesPerLook = 64;
constexpr int kLooksPerPause = 16;
// Before a rank moves to another CPU again.
constexpr std::chrono::milliseconds kStay{10};
// About as long, where nobody else wants to run.
constexpr int kYields = 50;
// A sleep that nobody ends; it matters only where the wake of a dying rank is lost.
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
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int rank = 0; rank < segment.world_size(); ++rank) CPU_OR(&all, &all, &segment.cpus(rank).set);
    return CPU_COUNT(&all);
}

}  // namespace

ShmWaiter::ShmWaiter(const ShmSegment& segment, PeerMesh& mesh, const RankGroup& ranks)
    : segment_(segment),
      mesh_(mesh),
      ranks_(ranks),
      own_wakeup_(&segment.wakeup(ranks.index)),
      crowded_(ranks.size() > cpus_of_all(segment)),
      spins_(!crowded_ && mesh.spins()) {
    mesh_.on_news([this] { on_news(); });
}

ShmWaiter::~ShmWaiter() { mesh_.on_news({}); }

void ShmWaiter::on_news() {
    news_.fetch_add(1, std::memory_order_seq_cst);
    for (int rank = 0; rank < segment_.world_size(); ++rank) {
        ShmWakeup& wakeup = segment_.wakeup(rank);
        wakeup.count.fetch_add(1, std::memory_order_seq_cst);
        futex_wake_all(wakeup.count);
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
    wake_if_owed();
    thread_local const int thread = ::gettid();
    const Marked marked(waiting_, thread);
    wait_longer(peer, condition, operation);
}

void ShmWaiter::wait_longer(int peer, const ShmCondition& condition, PeerMesh::Operation& operation) {
    if (operation.deadline == Deadline::max()) operation.deadline = Clock::now() + operation.timeout.length;
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
        if (has_passed(operation.deadline)) mesh_.fail_late({ranks_.at(peer)}, operation);
        mesh_.run_wait_schedule({ranks_.at(peer)}, operation);
        sleep_until_step(peer, condition, operation.deadline);
    }
}

void ShmWaiter::leave_cpu_of(int peer) {
    const int own = ::sched_getcpu();
    const auto cpu = static_cast<std::uint32_t>(own + 1);
    if (own_wakeup_->cpu.load(std::memory_order_relaxed) != cpu)
        own_wakeup_->cpu.store(cpu, std::memory_order_relaxed);
    if (ranks_.index < peer || segment_.wakeup(peer).cpu.load(std::memory_order_relaxed) != cpu) return;
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
    const Deadline deadline = Clock::now() + kSpin;
    do {
        for (int i = 0; i < kPausesPerLook; ++i) {
            if (condition.met()) return true;
            pause();
        }
        look_at_news(operation);
        // The peer may have been put on this rank's CPU, where it runs only if given the chance.
        ::sched_yield();
    } while (!has_passed(deadline));
    return false;
}

void ShmWaiter::sleep_until_step(int peer, const ShmCondition& condition, Deadline deadline) {
    ShmWakeup& wakeup = segment_.wakeup(peer);
    const auto rest = std::clamp<Clock::duration>(deadline - Clock::now(), Clock::duration(1), kLongestSleep);
    const auto nanoseconds = std::chrono::nanoseconds(rest).count();
    const timespec length{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
    wakeup.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t count = wakeup.count.load(std::memory_order_seq_cst);
    if (!condition.met() && news_.load(std::memory_order_seq_cst) == news_seen_) {
        ::syscall(SYS_futex, &wakeup.count, FUTEX_WAIT, count, &length, nullptr, 0);
    }
    wakeup.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace ddprun::inline detail
