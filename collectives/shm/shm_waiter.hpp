// ShmWaiter: how a rank waits for another rank's word in shared memory: spinning, then yielding, then asleep.
//
// Crowded ranks do not spin, since that would only keep away the ranks that they wait for. A rank sleeps on
// the wakeup of the rank it waits for, so one wake per step reaches just the ranks that it concerns. A sleep
// is bounded, and ends at once on news of the lifeline. A wait therefore ends with the word, with the
// communicator's verdict, or at the operation's deadline, which names the ranks that have not come.
#pragma once

#include <atomic>
#include <cstdint>

#include "collectives/shm/shm_segment.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

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

}  // namespace detail
}  // namespace ddprun
