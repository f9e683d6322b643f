// Backend: one way to carry out the operations of a communicator: alone, over TCP, in shared memory, by NCCL.
//
// A Backend is driven by Communicator, which has checked every argument: enumerators are known, ranks are in
// range, pointers are aligned and (where count > 0) not null. Buffers overlap not at all, or as
// communicator.hpp allows. A single thread at a time calls it; any may call abort() and verdict(). Throws
// CollectiveError. The destructor leaves in order and never throws.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/call/task.hpp"
#include "collectives/call/work_state.hpp"
#include "collectives/shared_buffer.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

// Returns zeros that only this process has. Throws CollectiveError, `system`.
SharedMemory private_memory(std::size_t bytes);

class Backend {
  public:
    virtual ~Backend() = default;

    // Returns when this rank's part is done. Any operation but none and join. `split` is the exchange of
    // split() over this communicator, an all_gather of u8; `parts` is an all_gather of u64.
    virtual void run(const Task& task) = 0;

    // Returns memory for a SharedBuffer; private_memory() where nothing is shared, or no more can be. Any
    // thread, beside operations.
    virtual SharedMemory allocate(std::size_t bytes) { return private_memory(bytes); }
    // Returns true for memory that the other ranks have mapped. Any thread.
    virtual bool owns(const void*) const { return false; }

    // Returns true for a backend that has its buffers in a device's memory. A device's backend has start(),
    // and multiplies for premul_sum itself.
    virtual bool on_device() const noexcept { return false; }
    // Starts a task: like run(), but returns when the operation is in its stream. Throws no error of the
    // operation itself.
    virtual std::shared_ptr<WorkState> start(const Task&) { return nullptr; }

    // Sets the timeout of operations without one of their own, from now on. Any thread.
    virtual void set_timeout(std::chrono::milliseconds) {}

    // Leaves in order, and waits until all other ranks have done so, or `deadline`. Returns the ranks that
    // have not, ascending. Throws if the communicator has ended, or ends meanwhile. Afterwards only abort(),
    // verdict() and the destructor may be called.
    virtual std::vector<int> leave(Deadline deadline) = 0;

    virtual void abort(const std::string& reason) = 0;
    // Returns why the communicator has ended, once it has; its calls then only throw. Any thread.
    virtual std::optional<Verdict> verdict() const = 0;
    bool ended() const { return verdict().has_value(); }
};

// kStartedNotEnded: why leave() aborts where operations that were started have not ended by its deadline.
inline constexpr const char* kStartedNotEnded =
    "finalize: operations that were started have not ended within its deadline";

}  // namespace detail
}  // namespace ddprun
