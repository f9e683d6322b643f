// ShmChannel: how the ranks of a host tell each other in shared memory which calls they make, and how far
// they are in rounds of staged data.
//
// Announcements have two banks, used in turn. A rank announces call k only when all have announced call k -
// 1, for which open() waits. Bank k mod 2 is then no longer needed for call k - 2. Rounds of staged data go
// through three stages in turn: a rank stages round g only when all have released round g - 3. There is no
// other flow control, and any mix of operations keeps the two rules. The store of `stamp`, `staged`,
// `reduced` or `released` releases what its rank has written, and what it has read and others write next. The
// load in ShmCondition::met() acquires it. What is written past the caches has a fence behind it
// (copy_shared).
//
// Crowded ranks, of which not all can run at once, meet. Each counts its announcement, and the last rank ends
// the wait of all that wait for all. A waiting rank then runs once for each call and not once for each rank,
// as far as the system lets it. The last rank acquires the announcements by their stamps; its store of
// `complete` releases them and `last`.
//
// The numbers of calls and rounds are the same on all ranks, since all make the same calls. An announcement
// carries a fingerprint of its call, and no data of a rank are used before that has been compared.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/call/task.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun {
inline namespace detail {

// reduce_in_order and shm_slice: in which order the ranks of a host reduce, and which bytes each. Pure.

// kReduceBlock: bytes that a caller with more should hand to reduce_in_order() at a time, so that the
// intermediate result stays in the first-level cache. A multiple of every element's size.
inline constexpr std::size_t kReduceBlock = std::size_t{8} << 10;

inline bool may_reduce_in_place(DataType type, ReduceOp op, int n) { return n == 2 || carries_f32(op, type); }

// reduce_in_order: out = part_of(0) op part_of(1) op … op part_of(n - 1), from left to right, of `bytes`
// each. avg divides at the end; f16 and bf16 are rounded once, there. `out` overlaps no part, but may be one
// of them where may_reduce_in_place(). 2 <= n <= kShmMaxRanks.
template <class PartOf>
void reduce_in_order(DataType type, ReduceOp op, int n, std::byte* out, std::size_t bytes, PartOf part_of) {
    const std::size_t count = bytes / size_of(type);
    if (carries_f32(op, type)) {
        std::array<const void*, kShmMaxRanks> parts;
        for (int rank = 0; rank < n; ++rank) parts[static_cast<std::size_t>(rank)] = part_of(rank);
        return combine_all(op, type, out, std::span(parts).first(static_cast<std::size_t>(n)), count);
    }
    combine(op, type, out, part_of(1), part_of(0), count);
    for (int rank = 2; rank < n; ++rank) combine(op, type, out, part_of(rank), out, count);
    if (op == ReduceOp::avg) finish_average(type, out, count, n);
}

struct ShmPiece {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// kSliceUnit: slices begin at multiples of it, so that no two ranks write one line.
inline constexpr std::size_t kSliceUnit = kShmLine;

constexpr std::size_t divided_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }
constexpr std::size_t line_up(std::size_t bytes) { return divided_up(bytes, kSliceUnit) * kSliceUnit; }

// Returns the slice of `size` bytes that `rank` reduces. All slices together cover the bytes once; the last
// ones may be empty.
constexpr ShmPiece shm_slice(std::size_t size, int rank, int ranks) {
    const std::size_t each = line_up(divided_up(size, static_cast<std::size_t>(ranks)));
    const std::size_t begin = std::min(size, static_cast<std::size_t>(rank) * each);
    return {begin, std::min(each, size - begin)};
}

// StoreType and copy_shared: copies from a rank's own memory to the memory that it shares with others. Pure.

// StoreType: how a rank writes what another rank reads next. `plain` stores first fetch the lines from the
// caches of the ranks that read them last; `non_temporal` stores go to memory instead. Which is faster
// depends on the processor, by a factor of up to ten both ways, and is therefore measured (probe_store_type).
enum class StoreType { plain, non_temporal };

// kLeastNonTemporal: fewer bytes are always written by plain stores.
inline constexpr std::size_t kLeastNonTemporal = std::size_t{2} << 10;

// Copies as copy_bytes() does, to `out` in shared memory. Other ranks see the copy complete before whatever
// is stored to memory next.
void copy_shared(StoreType type, void* out, const void* in, std::size_t bytes);

// ShmWaiter: how a rank waits for another rank's word in shared memory: spinning, then yielding, then asleep.
//
// Crowded ranks do not spin, since that would only keep away the ranks that they wait for. A rank sleeps on
// the wakeup of the rank it waits for, so one wake per step reaches just the ranks that it concerns. A sleep
// is bounded, and ends at once on news of the lifeline. A wait therefore ends with the word, with the
// communicator's verdict, or at the operation's deadline, which names the ranks that have not come.

// ShmCondition: what is waited for: a word that has reached `wanted`; for a stamp, a word with the call's
// number `wanted` in its upper half.
struct ShmCondition {
    const std::atomic<std::uint64_t>* word;
    std::uint64_t wanted;
    bool is_stamp;

    bool met() const noexcept {
        const std::uint64_t value = word->load(std::memory_order_acquire);
        return is_stamp ? static_cast<std::uint32_t>(value >> 32) == static_cast<std::uint32_t>(wanted)
                        : value >= wanted;
    }
};

class ShmWaiter {
  public:
    // ShmWaiter borrows all; `ranks` are those that share the segment, in the order of their places in it.
    // Listens to the mesh's news until destroyed.
    ShmWaiter(const ShmSegment& segment, PeerMesh& mesh, const RankGroup& ranks);
    ~ShmWaiter();

    // Returns true if the ranks of the segment cannot all run at once; the same on every rank.
    bool is_crowded() const noexcept { return crowded_; }

    // waiting() has the number of the thread that waits at the moment; 0: none. From any thread.
    const std::atomic<int>& waiting() const noexcept { return waiting_; }

    // kAll: as `peer` it stands for all ranks; the condition is then that a call is complete in the meeting.
    static constexpr int kAll = -1;

    // Waits for the rank in place `peer` to fulfil the condition. Throws as PeerMesh::wait does. Sets the
    // operation's deadline from its timeout when the first wait is a long one.
    void wait(int peer, const ShmCondition& condition, PeerMesh::Operation& operation) {
        if (!condition.met()) wait_long(peer, condition, operation);
    }

    static void wake(ShmWakeup& wakeup) {
        // Sequentially consistent, as in sleep_until_step(): either the sleeper sees the step or this rank
        // the sleeper.
        wakeup.count.fetch_add(1, std::memory_order_seq_cst);
        if (wakeup.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(wakeup.count);
    }
    // Tells the others that this rank has made a step, once the step's words are written.
    void wake_others() {
        owes_wakeup_ = false;
        wake(*own_wakeup_);
    }
    // wake_others_soon() delays wake_others() until this rank has waited for a moment, or calls
    // wake_if_owed(). A wake waits until the step's words have reached memory; meanwhile this rank may look
    // at the words of others.
    void wake_others_soon() noexcept { owes_wakeup_ = true; }
    void wake_if_owed() {
        if (owes_wakeup_) wake_others();
    }

  private:
    ShmWakeup& wakeup_of(int peer) const {
        return peer == kAll ? segment_.meeting().wakeup : segment_.wakeup(peer);
    }
    std::vector<int> awaited(int peer, const ShmCondition& condition) const;
    void wait_long(int peer, const ShmCondition& condition, PeerMesh::Operation& operation);
    void wait_longer(int peer, const ShmCondition& condition, PeerMesh::Operation& operation);
    bool spin(const ShmCondition& condition, PeerMesh::Operation& operation);
    void sleep_until_step(int peer, const ShmCondition& condition, Deadline deadline);
    // Throws if news have come that end the operation.
    void look_at_news(const PeerMesh::Operation& operation);
    // on_news, on the lifeline's thread, ends the sleep of every rank, above all of this one.
    void on_news();

    const ShmSegment& segment_;
    PeerMesh& mesh_;
    const RankGroup& ranks_;
    ShmWakeup* own_wakeup_;
    bool crowded_;
    int yields_;
    bool spins_;
    bool owes_wakeup_ = false;
    std::atomic<std::uint32_t> news_{0};
    std::atomic<int> waiting_{0};
    std::uint32_t news_seen_ = 0;
};

// ShmNote: where in the segment a rank's buffers lie, as the payload of its announcement says. 0: not in its
// pool, or not to be used there. See shm_backend.hpp.
struct ShmNote {
    std::uint64_t in = 0;
    std::uint64_t out = 0;
};

class ShmChannel {
  public:
    // ShmChannel borrows both. The segment is shared by the ranks of this host; below, a rank is its place in
    // that.
    ShmChannel(const ShmSegment& segment, PeerMesh& mesh);

    int rank() const noexcept { return rank_; }
    int world_size() const noexcept { return world_size_; }
    std::size_t stage_size() const noexcept { return segment_.layout().stage_size(); }
    bool is_crowded() const noexcept { return waiter_.is_crowded(); }
    const std::atomic<int>& waiting() const noexcept { return waiter_.waiting(); }
    StoreType store_type() const noexcept { return store_type_; }
    void set_store_type(StoreType type) noexcept { store_type_ = type; }

    // Begins the next call.
    void open(const PeerMesh::Operation& operation);
    void close() { waiter_.wake_if_owed(); }
    // payload() and slot() hold what ranks announce with the open call. Each rank writes its own before
    // announce(), and reads another's after await(). The memory stays until the next call but one is opened.
    std::byte* payload(int rank) const { return segment_.flag(rank, bank()).payload.data(); }
    std::byte* slot(int rank) const { return segment_.slot(rank, bank()); }
    // Writes the note as the payload, in calls that go through stages or pools.
    void write_note(const ShmNote& note) { std::memcpy(payload(rank_), &note, sizeof(note)); }
    // Returns a rank's note. If the note tells of an input, that has `in` bytes of the type, and the output
    // `out` bytes, maybe none. Buffers that do not lie in the rank's pool fail the call with the rank's name.
    ShmNote note(int rank, DataType type, std::size_t in, std::size_t out) const {
        using Word = OthersWord<std::uint64_t>;
        static_assert(sizeof(ShmNote) == 2 * sizeof(Word) && sizeof(ShmNote) <= kShmInlinePayload);
        const Word* const words = reinterpret_cast<const Word*>(payload(rank));
        const ShmNote note{words[0], words[1]};
        if (note.in == 0) return note;
        if (!is_in_pool(rank, type, note.in, in) || (out > 0 && !is_in_pool(rank, type, note.out, out)))
            fail_broken({ranks_.at(rank)}, "a buffer's place that is none into the shared memory");
        return note;
    }
    // Returns the memory at an offset of a note.
    std::byte* memory(std::uint64_t offset) const { return segment_.memory(offset); }
    void announce() {
        if (announce_and_hold()) release();
    }
    // Announces the open call. Where the ranks are crowded, returns true on the last rank that announces it;
    // ranks that wait for all then go on waiting until that rank calls release().
    bool announce_and_hold();
    void release();
    // Waits until `peer` has announced the open call. Throws `mismatch` if the peer's call is another one.
    void await(int peer) { await_stamp(peer, call_, fingerprint_); }
    // Waits until all have announced the open call. Returns the place of the last to come, where the ranks
    // are crowded.
    int await_all();

    // first_round() is the first round of staged data that the open call may use; rounds_used() says at its
    // end how many it used.
    std::uint64_t first_round() const noexcept { return round_; }
    void rounds_used(std::uint64_t count) noexcept { round_ += count; }
    std::byte* stage(int rank, std::uint64_t round) const {
        return segment_.stage(rank, static_cast<int>(round % kShmStages));
    }
    // Waits until this rank's stage of the round may be written.
    void await_stage(std::uint64_t round);
    void set_staged(std::uint64_t round) { step(own_progress_->staged, round + 1); }
    void set_reduced(std::uint64_t round) { step(own_progress_->reduced, round + 1); }
    void set_released(std::uint64_t round) { step(own_progress_->released, round + 1); }
    // Does set_reduced() and set_released() at once, where a rank has no more use for the others' stages once
    // its slice is reduced.
    void set_reduced_and_released(std::uint64_t round) {
        own_progress_->released.store(round + 1, std::memory_order_release);
        set_reduced(round);
    }
    void await_staged(int peer, std::uint64_t round) {
        waiter_.wait(peer, {&segment_.progress(peer).staged, round + 1, false}, operation_);
    }
    void await_reduced(int peer, std::uint64_t round) {
        waiter_.wait(peer, {&segment_.progress(peer).reduced, round + 1, false}, operation_);
    }

  private:
    int bank() const noexcept { return static_cast<int>(call_ % 2); }
    void await_stamp(int peer, std::uint64_t call, std::uint32_t fingerprint);
    // Waits until all others have announced the call, which is the last that this rank has announced.
    void await_call(std::uint64_t call, std::uint32_t fingerprint);
    [[noreturn]] void fail_mismatch(int peer, std::uint64_t call);
    bool is_in_pool(int rank, DataType type, std::uint64_t offset, std::size_t bytes) const {
        const ShmLayout& layout = segment_.layout();
        return lies_within(offset, bytes, layout.pool(rank), layout.pool_size()) &&
               (offset & (size_of(type) - 1)) == 0;
    }
    // Throws the verdict that one of the writers wrote what no rank writes.
    [[noreturn]] void fail_broken(std::vector<int> writers, const char* what) const;
    void step(std::atomic<std::uint64_t>& word, std::uint64_t value) {
        word.store(value, std::memory_order_release);
        waiter_.wake_others();
    }

    const ShmSegment& segment_;
    PeerMesh& mesh_;
    const RankGroup ranks_;
    ShmWaiter waiter_;
    ShmProgress* own_progress_;
    int rank_;
    int world_size_;
    PeerMesh::Operation operation_{};
    std::uint64_t call_ = 0;  // calls announced here so far, the open one included
    std::uint64_t round_ = 0;
    std::uint32_t fingerprint_ = 0;
    std::uint32_t last_fingerprint_ = 0;
    StoreType store_type_ = StoreType::plain;
    bool all_came_ = true;  // all ranks are known to have announced the call before
};

// ShmTurn: a call, from its entry to its end.
class ShmTurn {
  public:
    ShmTurn(ShmChannel& channel, const PeerMesh::Operation& operation) : channel_(channel) {
        channel.open(operation);
    }
    ~ShmTurn() { channel_.close(); }
    ShmTurn(const ShmTurn&) = delete;
    ShmTurn& operator=(const ShmTurn&) = delete;

  private:
    ShmChannel& channel_;
};

}  // namespace detail
}  // namespace ddprun
