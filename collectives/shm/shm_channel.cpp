#include "collectives/shm/shm_channel.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <ctime>
#include <memory>

#include "collectives/call/call.hpp"
#include "rendezvous/system/shared_memory.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace ddprun {
inline namespace detail {
namespace {

#if defined(__x86_64__)
void copy_past_the_caches(std::byte* out, const std::byte* in, std::size_t bytes) {
    constexpr std::size_t kVector = sizeof(__m128i);
    constexpr std::size_t kCacheLine = 64;
    // Whole lines only: a part of one costs a memory access each.
    const std::size_t lead = (kCacheLine - reinterpret_cast<std::uintptr_t>(out) % kCacheLine) % kCacheLine;
    const std::size_t body = (bytes - lead) / kCacheLine * kCacheLine;
    std::memcpy(out, in, lead);
    for (std::size_t i = lead; i < lead + body; i += kVector) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
    std::memcpy(out + lead + body, in + lead + body, bytes - lead - body);
    _mm_sfence();
}
#else
// Not by aarch64's stnp, either: it is a hint, which cores in use treat as a plain store.
void copy_past_the_caches(std::byte* out, const std::byte* in, std::size_t bytes) {
    std::memcpy(out, in, bytes);
}
#endif

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

// The finaliser of MurmurHash3 (Austin Appleby, public domain): every bit of the input changes half of those
// of the result.
std::uint64_t mix(std::uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51'afd7'ed55'8ccd;
    x ^= x >> 33;
    x *= 0xc4ce'b9fe'1a85'ec53;
    return x ^ (x >> 33);
}

// Says in a word what a call is but for its size.
struct CallKinds {
    Operation operation;
    DataType type;
    ReduceOp reduce;
    Compression compression;
    std::int32_t root;
};

std::uint64_t kinds_of(const Call& call) {
    return std::bit_cast<std::uint64_t>(
        CallKinds{call.operation, call.type, call.reduce, call.compression, call.root});
}

std::uint32_t fingerprint_of(const Call& call) {
    return static_cast<std::uint32_t>(mix(mix(kinds_of(call)) + call.count));
}

std::uint64_t stamp_of(std::uint64_t call, std::uint32_t fingerprint) { return call << 32 | fingerprint; }

}  // namespace

void copy_shared(StoreType type, void* out, const void* in, std::size_t bytes) {
    if (type == StoreType::plain || bytes < kLeastNonTemporal) return copy_bytes(out, in, bytes);
    copy_past_the_caches(static_cast<std::byte*>(out), static_cast<const std::byte*>(in), bytes);
}

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

ShmChannel::ShmChannel(const ShmSegment& segment, PeerMesh& mesh)
    : segment_(segment),
      mesh_(mesh),
      ranks_(ranks_of_host(mesh.membership())),
      waiter_(segment, mesh, ranks_),
      own_progress_(&segment.progress(ranks_.index)),
      rank_(ranks_.index),
      world_size_(ranks_.size()) {}

void ShmChannel::open(const PeerMesh::Operation& operation) {
    operation_ = operation;
    last_fingerprint_ = fingerprint_;
    if (!all_came_) await_call(call_, last_fingerprint_);
    ++call_;
    fingerprint_ = fingerprint_of(operation.call);
    all_came_ = false;
}

bool ShmChannel::announce_and_hold() {
    ShmCallRecord& record = segment_.record(rank_, bank());
    const Call& call = operation_.call;
    record.kinds.store(kinds_of(call), std::memory_order_relaxed);
    record.count.store(call.count, std::memory_order_relaxed);
    record.sequence.store(call.sequence, std::memory_order_relaxed);
    segment_.flag(rank_, bank()).stamp.store(stamp_of(call_, fingerprint_), std::memory_order_release);
    waiter_.wake_others_soon();
    // The last to count has all announcements before it, and whoever sees the call complete has that one,
    // too.
    if (!is_crowded()) return false;
    const std::uint64_t all = call_ * static_cast<std::uint64_t>(world_size_);
    if (segment_.meeting().announced.fetch_add(1, std::memory_order_acq_rel) + 1 != all) return false;
    for (int peer = 0; peer < world_size_; ++peer) await(peer);
    return true;
}

void ShmChannel::release() {
    ShmMeeting& meeting = segment_.meeting();
    meeting.last.store(rank_, std::memory_order_relaxed);
    meeting.complete.store(call_, std::memory_order_release);
    waiter_.wake(meeting.wakeup);
    all_came_ = true;
}

int ShmChannel::await_all() {
    await_call(call_, fingerprint_);
    all_came_ = true;
    const int last = segment_.meeting().last.load(std::memory_order_relaxed);
    if (is_crowded() && (last < 0 || last >= world_size_)) {
        // Any of the others may have written there.
        std::vector<int> others = ranks_.ranks;
        others.erase(others.begin() + rank_);
        fail_broken(std::move(others), "the place of no rank into the shared memory");
    }
    return last;
}

void ShmChannel::fail_broken(std::vector<int> writers, const char* what) const {
    mesh_.fail(broken_verdict(std::move(writers), what), operation_);
}

void ShmChannel::await_call(std::uint64_t call, std::uint32_t fingerprint) {
    // Who made the call complete has compared all announcements.
    if (is_crowded())
        return waiter_.wait(ShmWaiter::kAll, {&segment_.meeting().complete, call, false}, operation_);
    for (int i = 1; i < world_size_; ++i) await_stamp((rank_ + i) % world_size_, call, fingerprint);
}

void ShmChannel::await_stamp(int peer, std::uint64_t call, std::uint32_t fingerprint) {
    const auto& stamp = segment_.flag(peer, static_cast<int>(call % 2)).stamp;
    waiter_.wait(peer, {&stamp, call, true}, operation_);
    if (stamp.load(std::memory_order_relaxed) != stamp_of(call, fingerprint)) fail_mismatch(peer, call);
}

void ShmChannel::fail_mismatch(int peer, std::uint64_t call) {
    const auto read = [&](int rank) {
        const ShmCallRecord& record = segment_.record(rank, static_cast<int>(call % 2));
        const auto kinds = std::bit_cast<CallKinds>(record.kinds.load(std::memory_order_relaxed));
        return Call{kinds.operation,
                    kinds.type,
                    kinds.reduce,
                    kinds.root,
                    record.count.load(std::memory_order_relaxed),
                    record.sequence.load(std::memory_order_relaxed),
                    kinds.compression};
    };
    const Call own = read(rank_);
    const Call theirs = read(peer);
    const bool known = is_known(theirs.operation) && is_known(theirs.type) && is_known(theirs.reduce) &&
                       is_known(theirs.compression);
    if (!known || theirs == own) fail_broken({ranks_.at(peer)}, "no call into the shared memory");
    mesh_.fail_mismatch(own, ranks_.at(peer), theirs, operation_);
}

void ShmChannel::await_stage(std::uint64_t round) {
    if (round < kShmStages) return;
    const std::uint64_t released = round - kShmStages + 1;
    for (int i = 1; i < world_size_; ++i) {
        const int peer = (rank_ + i) % world_size_;
        waiter_.wait(peer, {&segment_.progress(peer).released, released, false}, operation_);
    }
}

}  // namespace detail
}  // namespace ddprun
