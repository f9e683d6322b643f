// ShmWaiter: how a rank waits for another one's word in shared memory: spinning, then yielding, then asleep.
//
// A rank that shares its CPU with others of its communicator hardly spins, since it would only keep away
// those it waits for. Sleepers sleep on the wakeup of the rank they wait for, so one wake per step reaches just
// the ranks that it concerns. Sleep is bounded, and ends at once on news of the lifeline; a wait therefore ends
// with the word, with the communicator's verdict, or at the operation's deadline, which names the ranks that
// have not come.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/shm/shm_segment.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/rank_group.hpp"
#include "rendezvous/system/futex.hpp"

namespace ddprun::inline detail {

// What is waited for: a word that has reached a number, or whose upper half is a call's number.
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
    // All borrowed; `ranks` are those that share the segment, in the order of their places in it. Hangs
    // itself on the mesh's news until destroyed.
    ShmWaiter(const ShmSegment& segment, PeerMesh& mesh, const RankGroup& ranks);
    ~ShmWaiter();

    // True if the ranks of the segment cannot all run at once; the same on every rank.
    bool is_crowded() const noexcept { return crowded_; }

    // The thread that waits at the moment; 0: none. From any thread.
    const std::atomic<int>& waiting() const noexcept { return waiting_; }

    // Waits for the rank in place `peer` to fulfil the condition. Throws as PeerMesh::wait does. Sets the
    // operation's deadline from its timeout when the first wait is a long one.
    void wait(int peer, const ShmCondition& condition, PeerMesh::Operation& operation) {
        if (!condition.met()) wait_long(peer, condition, operation);
    }

    // Tells the others that this rank has made a step. After the step's words are written.
    void wake_others() {
        owes_wakeup_ = false;
        // Sequentially consistent, as in sleep_until_step(): either the sleeper sees the step or this rank the
        // sleeper.
        own_wakeup_->count.fetch_add(1, std::memory_order_seq_cst);
        if (own_wakeup_->sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(own_wakeup_->count);
    }
    // The same, but at the latest when this rank has waited for a moment, or calls wake_if_owed():
    // the wake waits until the step's words have reached memory, during which this rank may look at those of
    // others.
    void wake_others_soon() noexcept { owes_wakeup_ = true; }
    void wake_if_owed() {
        if (owes_wakeup_) wake_others();
    }

  private:
    void wait_long(int peer, const ShmCondition& condition, PeerMesh::Operation& operation);
    // Moves this rank away if it and the peer have been put on one CPU though there are enough of them: they
    // would take turns until the system notices, which takes it longer than many programs run.
    void leave_cpu_of(int peer);
    void wait_longer(int peer, const ShmCondition& condition, PeerMesh::Operation& operation);
    bool spin(const ShmCondition& condition, PeerMesh::Operation& operation);
    void sleep_until_step(int peer, const ShmCondition& condition, Deadline deadline);
    // Throws if news have come that end the operation.
    void look_at_news(const PeerMesh::Operation& operation);
    // The lifeline's thread: ends the sleep of every rank, above all of this one.
    void on_news();

    const ShmSegment& segment_;
    PeerMesh& mesh_;
    const RankGroup& ranks_;
    ShmWakeup* own_wakeup_;
    bool crowded_;
    bool spins_;
    bool owes_wakeup_ = false;
    Deadline last_move_;
    std::atomic<std::uint32_t> news_{0};
    std::atomic<int> waiting_{0};
    std::uint32_t news_seen_ = 0;
};

}  // namespace ddprun::inline detail
