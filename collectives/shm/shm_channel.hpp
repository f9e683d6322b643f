// ShmChannel: what a rank tells and asks the others in shared memory: announcements of calls, and progress
// through rounds of staged data.
//
// Announcements have two banks, used in turn. A rank announces call k only when all have announced call k - 1
// (open() waits for that), so nobody needs bank k mod 2 any more for call k - 2. Rounds of staged data go
// through three stages in turn: a rank stages round g only when all have released round g - 3. These two
// rules are all the flow control there is, and any mix of operations keeps them.
//
// The numbers of calls and rounds are the same on all ranks, since all make the same calls: an announcement
// carries a fingerprint of its call, and no data of a rank are used before it has been compared.
#pragma once

#include "collectives/shm/shm_copy.hpp"
#include "collectives/shm/shm_waiter.hpp"

namespace ddprun::inline detail {

// What a rank says of its buffers, in the payload of an announcement: the areas they lie in (0: none), and
// where in its part of them. See shm_area.hpp.
struct ShmNote {
    std::uint32_t in = 0;
    std::uint32_t out = 0;
    std::uint64_t in_offset = 0;
    std::uint64_t out_offset = 0;
};

class ShmChannel {
  public:
    // Borrows both. The segment is shared by the ranks of this host; below, ranks are their places on it.
    ShmChannel(const ShmSegment& segment, PeerMesh& mesh);

    int rank() const noexcept { return rank_; }
    int world_size() const noexcept { return world_size_; }
    std::size_t stage_size() const noexcept { return segment_.layout().stage_size(); }
    // True if the ranks cannot all run at once; the same on every rank.
    bool is_crowded() const noexcept { return waiter_.is_crowded(); }
    // See ShmWaiter.
    const std::atomic<int>& waiting() const noexcept { return waiter_.waiting(); }
    // How this rank writes what others read next. See shm_copy.hpp.
    StoreType store_type() const noexcept { return store_type_; }
    void set_store_type(StoreType type) noexcept { store_type_ = type; }

    // Begins the next call.
    void open(const PeerMesh::Operation& operation);
    // Ends it.
    void close() { waiter_.wake_if_owed(); }
    // This rank's payload in the announcement of the open call, and its slot: to be written before
    // announce(). Of others: to be read after await(). Both stay until the next call but one is opened.
    std::byte* payload(int rank) const { return segment_.flag(rank, bank()).payload.data(); }
    std::byte* slot(int rank) const { return segment_.slot(rank, bank()); }
    // The payload as a note: of every call that goes through stages or areas.
    void write_note(const ShmNote& note) { std::memcpy(payload(rank_), &note, sizeof(note)); }
    ShmNote note(int rank) const {
        static_assert(sizeof(ShmNote) <= kShmInlinePayload);
        ShmNote note;
        std::memcpy(&note, payload(rank), sizeof(note));
        return note;
    }
    void announce();
    // Waits until `peer`, or everybody, has announced the open call. Throws `mismatch` if it is another one.
    void await(int peer) { await_stamp(peer, call_, fingerprint_); }
    void await_all();

    // Rounds of staged data: the first that the open call may use; to be told at its end how many it used.
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
    // The same two at once, where a rank has no more use for the others' stages once its slice is reduced.
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
    [[noreturn]] void fail_mismatch(int peer, std::uint64_t call);
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

// A call, from its entry to its end.
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

}  // namespace ddprun::inline detail
