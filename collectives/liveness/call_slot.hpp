// CallSlot: where a communicator tells its process's agent which call it is in, and for which ranks it waits
// (rendezvous/worker/call_page.hpp).
//
// A slot is used by the thread that runs the operations. Where the process has more communicators than slots,
// or the system refuses the page, what is told cannot be read.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/call/call.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/worker/call_page.hpp"

namespace ddprun {
inline namespace detail {

class ProcessCalls;

class CallSlot {
  public:
    // Takes a slot for the group of that number. `job_ranks`: the communicator's ranks by their numbers in
    // the job; empty: these are not known, and no rank is named.
    CallSlot(std::uint64_t group, std::vector<int> job_ranks);
    CallSlot(const CallSlot&) = delete;
    CallSlot& operator=(const CallSlot&) = delete;
    ~CallSlot();

    void begin(const Call& call) noexcept {
        const std::uint64_t number = call.sequence;
        last_.count = number == last_.number ? last_.count + 1 : 0;
        last_.number = number;
        last_.operation = call.operation == Operation::parts ? static_cast<std::uint32_t>(call.root)
                                                             : static_cast<std::uint32_t>(call.operation);
        slot_->call.store(to_word(last_), std::memory_order_relaxed);
        if (page_->latest.load(std::memory_order_relaxed) != place_)
            page_->latest.store(place_, std::memory_order_relaxed);
    }

    // Ends the call, where it has waited; else there is nothing to take back.
    void end() noexcept {
        if (waits_) end_wait();
    }

    // Tells that the open call, which began then, waits for these ranks of the communicator. Costs about as
    // much as a read of the clock; called before and between sleeps.
    void wait(Deadline since, std::span<const int> awaited) noexcept;

  private:
    using Slot = CallSlotOf<std::atomic<std::uint64_t>>;

    void end_wait() noexcept;

    ProcessCalls& calls_;
    const std::vector<int> job_ranks_;
    CallPage* page_;
    std::uint64_t place_;
    Slot* slot_;
    CallWord last_{.is_open = true};
    bool waits_ = false;
};

// CallEnd ends what has begun in a slot.
class CallEnd {
  public:
    explicit CallEnd(CallSlot& slot) noexcept : slot_(slot) {}
    CallEnd(const CallEnd&) = delete;
    CallEnd& operator=(const CallEnd&) = delete;
    ~CallEnd() { slot_.end(); }

  private:
    CallSlot& slot_;
};

}  // namespace detail
}  // namespace ddprun
