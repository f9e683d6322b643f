#include "collectives/shm/shm_waiter.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {
namespace {

using Clock = Deadline::clock;

// Waking a sleeper takes 20 us and more on a virtual machine, so less is seldom worth one.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kPausesPerLook = 64;
constexpr int kLooksPerPause = 16;
// About as long, where nobody else wants to run.
constexpr int kYields = 50;
// Linux gives each session a share of the CPU of its own, and ddprun each rank a session; so a rank that
// yields is taken again before others, the more often the more of them there are on a CPU. With more than so
// many, it sleeps at once.
constexpr int kMostYielding = 8;
// A sleep that nobody ends; it matters only where the wake of a dying rank is lost.
constexpr std::chrono::milliseconds kLongestSleep{50};

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
      yields_(ranks.size() > kMostYielding * cpus_of_all(segment) ? 0 : kYields),
      spins_(!crowded_ && mesh.spins()) {
    mesh_.on_news([this] { on_news(); });
}

ShmWaiter::~ShmWaiter() { mesh_.on_news({}); }

void ShmWaiter::on_news() {
    news_.fetch_add(1, std::memory_order_seq_cst);
    for (int rank = kAll; rank < segment_.world_size(); ++rank) wake(wakeup_of(rank));
}

void ShmWaiter::look_at_news(const PeerMesh::Operation& operation) {
    const std::uint32_t news = news_.load(std::memory_order_seq_cst);
    if (news == news_seen_) return;
    news_seen_ = news;
    mesh_.throw_if_ended(operation);
}

std::vector<int> ShmWaiter::awaited(int peer, const ShmCondition& condition) const {
    std::vector<int> late;
    for (int rank = 0; rank < segment_.world_size(); ++rank) {
        const auto& stamp = segment_.flag(rank, static_cast<int>(condition.wanted % 2)).stamp;
        const bool is_late = !ShmCondition{&stamp, condition.wanted, true}.met();
        if (peer == kAll ? is_late : peer == rank) late.push_back(ranks_.at(rank));
    }
    return late;
}

void ShmWaiter::wait_long(int peer, const ShmCondition& condition, PeerMesh::Operation& operation) {
    for (int i = 0; spins_ && i < kPausesPerLook; ++i) {
        // A pause takes long enough to be felt by the smallest operations.
        for (int look = 0; look < kLooksPerPause; ++look) {
            if (condition.met()) return;
        }
        relax();
    }
    wake_if_owed();
    thread_local const int thread = ::gettid();
    waiting_.store(thread, std::memory_order_relaxed);
    const std::unique_ptr<std::atomic<int>, void (*)(std::atomic<int>*)> until_the_end(
        &waiting_, [](std::atomic<int>* place) { place->store(0, std::memory_order_relaxed); });
    wait_longer(peer, condition, operation);
}

void ShmWaiter::wait_longer(int peer, const ShmCondition& condition, PeerMesh::Operation& operation) {
    if (operation.deadline == Deadline::max()) operation.deadline = Clock::now() + operation.timeout.length;
    if (spins_) {
        leave_cpu_of(segment_.wakeup(peer).cpu, own_wakeup_->cpu, ranks_.index < peer);
        if (spin(condition, operation)) return;
    }
    for (int i = 0; i < yields_; ++i) {
        if (condition.met()) return;
        look_at_news(operation);
        ::sched_yield();
    }
    for (bool slept = false; !condition.met(); slept = true) {
        look_at_news(operation);
        if (has_passed(operation.deadline)) mesh_.fail_late(awaited(peer, condition), operation);
        if (slept) mesh_.run_wait_schedule(awaited(peer, condition), operation);
        const Deadline planned = Clock::now() + kLongestSleep;
        sleep_until_step(peer, condition, operation.deadline);
        operation.deadline =
            end_after_sleep(operation.deadline, planned, Clock::now(), operation.timeout.length);
    }
}

bool ShmWaiter::spin(const ShmCondition& condition, PeerMesh::Operation& operation) {
    const Deadline deadline = Clock::now() + kSpin;
    do {
        for (int i = 0; i < kPausesPerLook; ++i) {
            if (condition.met()) return true;
            relax();
        }
        look_at_news(operation);
        // The peer may have been put on this rank's CPU, where it runs only if given the chance.
        ::sched_yield();
    } while (!has_passed(deadline));
    return false;
}

void ShmWaiter::sleep_until_step(int peer, const ShmCondition& condition, Deadline deadline) {
    ShmWakeup& wakeup = wakeup_of(peer);
    const auto rest = std::clamp<Clock::duration>(deadline - Clock::now(), Clock::duration(1), kLongestSleep);
    wakeup.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const std::uint32_t count = wakeup.count.load(std::memory_order_seq_cst);
    if (!condition.met() && news_.load(std::memory_order_seq_cst) == news_seen_)
        futex_wait_for(wakeup.count, count, rest);
    wakeup.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace detail
}  // namespace ddprun
