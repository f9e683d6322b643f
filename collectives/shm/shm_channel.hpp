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

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/shm/copy_shared.hpp"
#include "collectives/shm/shm_segment.hpp"
#include "collectives/shm/shm_waiter.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

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
    void close() {
        mesh_.call_slot().end();
        waiter_.wake_if_owed();
    }
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
