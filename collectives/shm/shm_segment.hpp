// ShmSegment: the memory shared by the ranks of one communicator on one host: a mapping laid out as
// ShmLayout says, known by the communicator's nonce in it.
#pragma once

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "collectives/shm/message_layout.hpp"
#include "collectives/shm/shm_pool.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/frame.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {

// ShmLayout: where everything lies in the memory that the ranks of one host share. Pure.
//
// First come a header line and the meeting. Then each rank has two flag lines, two call records, a progress
// line, a wakeup and its CPUs; then two slots for small payloads; then three stages for large ones. The
// communicator's end, each rank's life and the memory of messages by tag follow; at the end, where there is
// more, each rank has a pool (shm_pool.hpp). Every line has 128 bytes to itself, because processors fetch
// lines in pairs. Each is written by one rank only, but the count of sleepers in a wakeup, the bit of waiters
// in a life, the meeting and the end.
//
// The memory begins as zeros. All counters only grow, so nothing is ever reset.

inline constexpr std::uint64_t kShmMagic = 0x314d'4853'5044'4400;  // "\0DDPSHM1"
inline constexpr std::uint32_t kShmVersion = 7;
inline constexpr char kShmName[] = "ddprun-collectives";  // as /proc/PID/maps shows it
inline constexpr std::size_t kShmLine = 128;
inline constexpr std::size_t kShmInlinePayload = 56;
// kShmLargestSlot: bytes of the largest payload of a slot, if the slots of all ranks together have no more
// than kShmSlotsTogether.
inline constexpr std::size_t kShmLargestSlot = std::size_t{64} << 10;
inline constexpr std::size_t kShmSlotsTogether = std::size_t{128} << 10;
inline constexpr std::size_t kShmLargestStage = std::size_t{512} << 10;
// kShmMaxStages: bytes of all stages together; with so many ranks that it is passed, each stage gets smaller.
inline constexpr std::size_t kShmMaxStages = std::size_t{64} << 20;
inline constexpr int kShmMaxRanks = 256;
// kShmMaxPools: bytes of all pools together; less where the host has less memory. What is not allocated is
// addresses only.
inline constexpr std::size_t kShmMaxPools = std::size_t{256} << 30;
inline constexpr int kShmStages = 3;
inline constexpr std::size_t kShmLinesPerRank = 7;          // two flags, two records, progress, wakeup, CPUs
inline constexpr std::size_t kShmLastRecord = 1028;         // the longest notice
inline constexpr std::uint32_t kShmReleased = 0x3fff'ffff;  // no thread's number: Linux has 4 Mi at most

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the ranks share atomics between processes");

struct alignas(kShmLine) ShmHeader {
    std::uint64_t magic = kShmMagic;
    std::uint32_t version = kShmVersion;
    std::uint32_t world_size = 0;
    std::uint32_t round = 0;
    std::uint32_t communicator = 0;
    std::uint32_t page = 0;  // bytes, by which everything behind has its place
    Nonce nonce{};

    bool operator==(const ShmHeader&) const = default;
};

// ShmFlag: one rank's announcement of a call. `stamp` is the call's number (low 32 bits) above its
// fingerprint; what is announced is written before it.
struct alignas(kShmLine) ShmFlag {
    std::atomic<std::uint64_t> stamp;
    std::array<std::byte, kShmInlinePayload> payload;
};

// ShmCallRecord: the announced call in full; read only when fingerprints differ.
struct alignas(kShmLine) ShmCallRecord {
    std::atomic<std::uint64_t> kinds;  // operation, type, reduction, compression, root
    std::atomic<std::uint64_t> count;
    std::atomic<std::uint64_t> sequence;
};

// ShmProgress: how many rounds of staged data (numbered from 0 over the whole life) the rank has staged, has
// reduced its slice of, and no longer needs from any other.
struct alignas(kShmLine) ShmProgress {
    std::atomic<std::uint64_t> staged;
    std::atomic<std::uint64_t> reduced;
    std::atomic<std::uint64_t> released;
};

// ShmWakeup: `count` is counted up by its rank after every step; ranks that wait for that rank sleep on it.
struct alignas(kShmLine) ShmWakeup {
    std::atomic<std::uint32_t> count;
    std::atomic<std::uint32_t> sleepers;
    std::atomic<std::uint32_t> cpu;  // see leave_cpu_of()
};

// ShmMeeting: where crowded ranks meet (shm_channel.hpp). Counts the announcements of all calls by all ranks.
// The rank that makes the last one of a call says that the call is complete, and its own place. Ranks that
// wait for all sleep on the wakeup.
struct alignas(kShmLine) ShmMeeting {
    std::atomic<std::uint64_t> announced;
    std::atomic<std::uint64_t> complete;
    std::atomic<std::int32_t> last;
    ShmWakeup wakeup;
};

// ShmCpus: the CPUs on which the rank may run, written once before the others look.
struct alignas(kShmLine) ShmCpus {
    cpu_set_t set;
};
static_assert(sizeof(ShmCpus) == kShmLine);

// ShmEnd: which rank's last_record says why the communicator ended: 1 + its place; 0 while it lives. Set
// once.
struct alignas(kShmLine) ShmEnd {
    std::atomic<std::uint32_t> first;
};

// ShmLife: whether one rank lives, and why its communicator ended; see shm_lifeline.hpp.
struct alignas(kShmLine) ShmLife {
    // word: a robust futex: 0 before the rank has come, then the number of the thread that holds it,
    // kShmReleased after the rank has left. The kernel sets FUTEX_OWNER_DIED.
    std::atomic<std::uint32_t> word;
    // exited: 1 once the rank's process has called exit().
    std::atomic<std::uint32_t> exited;
    // last_record_size: bytes of last_record, an encoded notice of why the communicator ended, as far as this
    // rank knows; 0 while it lives.
    std::atomic<std::uint32_t> last_record_size;
    std::array<std::byte, kShmLastRecord> last_record;
};

class ShmLayout {
  public:
    // ShmLayout is for 2 to kShmMaxRanks ranks; what is mapped beyond size() is for the pools.
    explicit ShmLayout(int world_size, std::size_t mapped = 0, std::size_t page = page_size());

    // size(): bytes of all but the pools.
    std::size_t size() const noexcept { return size_; }
    // pool_size(): bytes of a rank's pool, maybe none.
    std::size_t pool_size() const noexcept { return pool_size_; }
    std::size_t pool(int rank) const noexcept { return size_ + static_cast<std::size_t>(rank) * pool_size_; }
    // slot_payload(): bytes of the largest payload for a slot.
    std::size_t slot_payload() const noexcept { return slot_payload_; }
    // stage_size(): bytes of one stage; a multiple of the page.
    std::size_t stage_size() const noexcept { return stage_size_; }

    // meeting() and the following are offsets from the beginning.
    std::size_t meeting() const noexcept { return sizeof(ShmHeader); }
    std::size_t flag(int rank, int bank) const noexcept { return line(rank, bank); }
    std::size_t record(int rank, int bank) const noexcept { return line(rank, 2 + bank); }
    std::size_t progress(int rank) const noexcept { return line(rank, 4); }
    std::size_t wakeup(int rank) const noexcept { return line(rank, 5); }
    std::size_t cpus(int rank) const noexcept { return line(rank, 6); }
    std::size_t end() const noexcept { return end_; }
    // messages() is where the memory of messages by tag begins, of MessageLayout's size.
    std::size_t messages() const noexcept { return messages_; }
    std::size_t life(int rank) const noexcept {
        return end_ + sizeof(ShmEnd) + static_cast<std::size_t>(rank) * sizeof(ShmLife);
    }
    std::size_t slot(int rank, int bank) const noexcept {
        return slots_ + static_cast<std::size_t>(rank * 2 + bank) * slot_size_;
    }
    std::size_t stage(int rank, int buffer) const noexcept {
        return stages_ + static_cast<std::size_t>(rank * kShmStages + buffer) * stage_size_;
    }

  private:
    // line() is the offset of one of a rank's lines, which lie behind the meeting.
    static std::size_t line(int rank, int number) noexcept {
        const std::size_t first = static_cast<std::size_t>(rank) * kShmLinesPerRank;
        return sizeof(ShmHeader) + sizeof(ShmMeeting) + kShmLine * (first + static_cast<std::size_t>(number));
    }

    std::size_t slot_payload_;
    std::size_t slot_size_;
    std::size_t stage_size_;
    std::size_t slots_;
    std::size_t stages_;
    std::size_t end_;
    std::size_t messages_;
    std::size_t size_;
    std::size_t pool_size_;
};

class ShmSegment {
  public:
    // Makes and maps a segment; nothing where the system refuses. Keeps the descriptor until close_offer().
    static std::optional<ShmSegment> create(const Membership& membership) { return map(nullptr, membership); }
    // Maps the segment offered; nothing if it cannot be had or is not of this communicator.
    static std::optional<ShmSegment> open(const ShmOffer& offer, const Membership& membership) {
        return map(&offer, membership);
    }

    ShmOffer offer() const noexcept { return mapping_->offer(); }
    // close_offer() closes the descriptor; the mapping stays.
    void close_offer() { mapping_->close_offer(); }

    const ShmLayout& layout() const noexcept { return layout_; }
    int world_size() const noexcept { return world_size_; }
    // Makes this rank use no pools, since not all ranks have mapped theirs.
    void give_up_pools() { layout_ = ShmLayout(world_size_); }
    // all_measured: all ranks have found out which stores suit their processor.
    bool all_measured = false;
    // Returns the rank's pool; null where there are none.
    std::shared_ptr<ShmPool> pool(int rank) const;
    std::byte* memory(std::size_t offset) const { return mapping_->base() + offset; }

    ShmMeeting& meeting() const { return at<ShmMeeting>(layout_.meeting()); }
    ShmFlag& flag(int rank, int bank) const { return at<ShmFlag>(layout_.flag(rank, bank)); }
    ShmCallRecord& record(int rank, int bank) const { return at<ShmCallRecord>(layout_.record(rank, bank)); }
    ShmProgress& progress(int rank) const { return at<ShmProgress>(layout_.progress(rank)); }
    ShmWakeup& wakeup(int rank) const { return at<ShmWakeup>(layout_.wakeup(rank)); }
    ShmCpus& cpus(int rank) const { return at<ShmCpus>(layout_.cpus(rank)); }
    ShmEnd& end() const { return at<ShmEnd>(layout_.end()); }
    ShmLife& life(int rank) const { return at<ShmLife>(layout_.life(rank)); }
    std::byte* messages() const { return memory(layout_.messages()); }
    std::byte* slot(int rank, int bank) const { return memory(layout_.slot(rank, bank)); }
    std::byte* stage(int rank, int buffer) const { return memory(layout_.stage(rank, buffer)); }

  private:
    // Maps the segment offered, or a new one where there is no offer.
    static std::optional<ShmSegment> map(const ShmOffer* offer, const Membership& membership);
    ShmSegment(ShmMapping mapping, int world_size)
        : mapping_(std::make_shared<ShmMapping>(std::move(mapping))),
          layout_(world_size, mapping_->size()),
          world_size_(world_size) {}
    template <class T>
    T& at(std::size_t offset) const {
        return *reinterpret_cast<T*>(memory(offset));
    }

    std::shared_ptr<ShmMapping> mapping_;
    ShmLayout layout_;
    int world_size_;
};

// hand_over_segment: the ranks of a new communicator agree whether those of each host share memory, and map
// it.
//
// Two all-gathers: the offer of the lowest rank of each host, then whether each rank could map it. All ranks
// therefore decide alike, whatever a single one may or may not do.

// found_store_type() is 1 + the number of the StoreType that suits this process's processor; 0: not found out
// yet.
std::atomic<int>& found_store_type();

struct ShmWord {
    ShmOffer offer;
    std::int32_t pieces = 0;    // 0: not mapped; 1: without the pools; 2: all
    std::int32_t measured = 0;  // found_store_type()
};
// ShmGather gives its word to all ranks, and returns every rank's word, by rank.
using ShmGather = std::function<std::vector<ShmWord>(const ShmWord&)>;

// hand_over_segment is called by all ranks, as part of making the communicator. `wanted` is this rank's own
// wish; one rank without it decides for all. Nothing if any rank could not map its segment. Throws as
// `gather` does.
std::optional<ShmSegment> hand_over_segment(const Membership& membership, bool wanted,
                                            const ShmGather& gather);

}  // namespace detail
}  // namespace ddprun
