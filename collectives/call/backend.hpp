// Backend: one way to carry out the operations of a communicator: alone, over TCP, in shared memory, by NCCL.
//
// Driven by Communicator, which has checked every argument: known enumerators, ranks in range, aligned and
// non-null pointers (where count > 0), buffers that overlap not at all or exactly as documented there. One
// thread at a time, but abort() and verdict() from any. Throws CollectiveError. The destructor leaves in
// order and never throws.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/task.hpp"
#include "collectives/call/verdict.hpp"
#include "collectives/call/work_state.hpp"
#include "collectives/shared_buffer.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline detail {

class Backend {
  public:
    virtual ~Backend() = default;

    // Returns when this rank's part is done. Any operation but none and join. `split` is the exchange that is
    // the part of split() which goes over this communicator: an all_gather of u8.
    virtual void run(const Task& task) = 0;

    // Memory for a SharedBuffer, `bytes` on every rank; called by all ranks, in the order of their
    // operations. private_memory() where nothing is shared.
    virtual SharedMemory allocate(std::size_t bytes);

    // True for a backend whose buffers are the device's: it has start(), and multiplies for premul_sum
    // itself.
    virtual bool on_device() const noexcept { return false; }
    // Like run(), but returns when the operation is in its stream. Throws nothing of the operation itself.
    virtual std::shared_ptr<WorkState> start(const Task&) { return nullptr; }

    // Says goodbye, and waits until all other ranks have done so, or `deadline`. Returns the ranks that have
    // not, ascending. Throws if the communicator has ended, or does meanwhile. Only abort(), verdict()
    // and the destructor come after it.
    virtual std::vector<int> leave(Deadline deadline) = 0;

    virtual void abort(const std::string& reason) = 0;
    // Why the communicator has ended, once it has; its calls then only throw. Any thread.
    virtual std::optional<Verdict> verdict() const = 0;
    bool ended() const { return verdict().has_value(); }
};

// Why leave() aborts where operations that were started have not ended by its deadline.
inline constexpr const char* kStartedNotEnded =
    "finalize: operations that were started have not ended within its deadline";

// Zeros that only this process has. Throws CollectiveError, `system`.
SharedMemory private_memory(std::size_t bytes);

}  // namespace ddprun::inline detail
