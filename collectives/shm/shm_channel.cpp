#include "collectives/shm/shm_channel.hpp"

#include <bit>
#include <cstdint>

#include "collectives/call/call.hpp"

namespace ddprun {
inline namespace detail {
namespace {

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
