// Backend: one way to carry out the operations of a communicator: alone, over TCP, in shared memory, by NCCL.
//
// Driven by Communicator, which has checked every argument: known enumerators, ranks in range, aligned and
// non-null pointers (where count > 0), buffers that overlap not at all or exactly as documented there. One
// thread at a time, but abort() and verdict() from any. Throws CollectiveError. The destructor leaves in
// order and never throws.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/error.hpp"
#include "collectives/operation_request.hpp"
#include "collectives/shared_buffer.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace detail {

// Runs body(), which throws nothing, on a thread of the process's that does nothing else: each gets one at
// once, since it may wait for another; idle ones end after a while. Where no thread can be had and there is
// none, in the caller's.
void run_beside(std::function<void()> body);

// WorkState: what a Work stands for. Each way of carrying out operations in the background has its own kind.
//
// Shared by the thread that carries the operation out and those that wait; any thread. In a forked child
// nothing may be asked but whose it is, and nothing destroyed (make_in_process).
class WorkState {
  public:
    virtual ~WorkState() = default;

    bool is_of_parent() const noexcept { return process_ != this_process(); }
    // True when the operation has ended, well or not.
    virtual bool ended() = 0;
    // Waits for that, until `deadline` at most. False if it has not.
    virtual bool wait_until(Deadline deadline) = 0;
    // Calls done(), which keeps this object, once, after the end: at once if that has come, else by
    // run_beside().
    virtual void then(std::function<void()> done) = 0;
    // Tells, after the end, what went wrong.
    virtual std::optional<CollectiveError> error() = 0;
    // See Work::source().
    virtual int source() { return -1; }

  private:
    const ProcessNumber process_ = this_process();
};

// Parts: where a task's buffers lie, if not in one piece.
//
// Of counted parts both lists have an element for each rank: a buffer without parts is the part for, or from,
// each rank that has anything of it. Else a list is empty where the buffer is in one piece.
struct Parts {
    std::vector<Part> in;
    std::vector<Part> out;
    bool counted = false;
};

// Task: one operation as a rank asked for it: what all ranks must agree on, and this rank's buffers. Pure.
//
// Communicator makes it from checked arguments; a Backend carries it out. Buffers are the caller's and stay
// valid until the task has ended.
struct Task {
    Call call;  // its sequence is counted by the backend
    // In an operation in place `out` is `in` for all_reduce, reduce and all_to_all, this rank's part of it
    // for the others. broadcast has the same in both. Where they do not count (`out` of reduce and gather,
    // and `in` of scatter, but on the root; of send and recv the one that has no meaning), they may be
    // anything.
    const void* in = nullptr;
    void* out = nullptr;
    double scalar = 1;       // of premul_sum
    void* stream = nullptr;  // of the device, in which the operation takes its place; null: the backend's own
    // A group has members, in the order in which they were added: sends and receives, whose streams do not
    // count.
    std::shared_ptr<const std::vector<Task>> members;
    std::chrono::milliseconds timeout{0};  // from when its turn comes; 0: the communicator's
    // Null: in one piece. Where they are counted, call.count is the largest of all ranks' when a backend gets
    // the task.
    std::shared_ptr<const Parts> parts = nullptr;
};

// The parts of a task as bytes.
inline const std::byte* input_of(const Task& task) { return static_cast<const std::byte*>(task.in); }
inline std::byte* output_of(const Task& task) { return static_cast<std::byte*>(task.out); }
// Bytes of call.count elements.
inline std::size_t bytes_of(const Task& task) { return task.call.count * size_of(task.call.type); }
// A rank's part, where there is one for each: of `data`, unless `parts` has them.
inline Part part_of(const Task& task, const std::vector<Part> Parts::*parts, const void* data, int rank) {
    const auto place = static_cast<std::size_t>(rank);
    if (task.parts && !((*task.parts).*parts).empty()) return ((*task.parts).*parts)[place];
    auto* bytes = static_cast<std::byte*>(const_cast<void*>(data));
    return {bytes + place * bytes_of(task), task.call.count};
}
inline const std::byte* input_part(const Task& task, int rank) {
    return static_cast<const std::byte*>(part_of(task, &Parts::in, task.in, rank).data);
}
inline std::byte* output_part(const Task& task, int rank) {
    return static_cast<std::byte*>(part_of(task, &Parts::out, task.out, rank).data);
}
// Its bytes; of a buffer without parts, what goes to that rank, or comes from it.
inline std::size_t input_bytes(const Task& task, int rank) {
    return part_of(task, &Parts::in, task.in, rank).count * size_of(task.call.type);
}
inline std::size_t output_bytes(const Task& task, int rank) {
    return part_of(task, &Parts::out, task.out, rank).count * size_of(task.call.type);
}

// Nothing to do for no bytes, whose pointers may be null, and for a buffer that is where it shall be.
inline void copy_bytes(void* out, const void* in, std::size_t bytes) {
    if (bytes > 0 && out != in) std::memcpy(out, in, bytes);
}

// Zeros that only this process has. Throws CollectiveError, `system`.
SharedMemory private_memory(std::size_t bytes);

class Backend {
  public:
    virtual ~Backend() = default;

    // Returns when this rank's part is done. Any operation but none and join. `split` is the exchange that is
    // the part of split() which goes over this communicator: an all_gather of u8; `parts` one of u64.
    virtual void run(const Task& task) = 0;

    // Memory for a SharedBuffer; private_memory() where nothing is shared, or no more can be. Any thread,
    // beside operations.
    virtual SharedMemory allocate(std::size_t bytes) { return private_memory(bytes); }
    // True for memory that the other ranks have mapped. Any thread.
    virtual bool owns(const void*) const { return false; }

    // True for a backend whose buffers are the device's: it has start(), and multiplies for premul_sum
    // itself.
    virtual bool on_device() const noexcept { return false; }
    // Does the same as run(), but returns when the operation is in its stream. Throws nothing of the
    // operation itself.
    virtual std::shared_ptr<WorkState> start(const Task&) { return nullptr; }

    // Operations without a timeout of their own have this one from now on. Any thread.
    virtual void set_timeout(std::chrono::milliseconds) {}

    // Says goodbye, and waits until all other ranks have done so, or `deadline`. Returns the ranks that have
    // not, ascending. Throws if the communicator has ended, or does meanwhile. Only abort(), verdict()
    // and the destructor come after it.
    virtual std::vector<int> leave(Deadline deadline) = 0;

    virtual void abort(const std::string& reason) = 0;
    // Why the communicator has ended, once it has; its calls then only throw. Any thread.
    virtual std::optional<Verdict> verdict() const = 0;
    bool ended() const { return verdict().has_value(); }
};

// Longer timeouts could overflow the clock.
inline constexpr std::chrono::hours kLongestTimeout{24 * 3650};

// Why leave() aborts where operations that were started have not ended by its deadline.
inline constexpr const char* kStartedNotEnded =
    "finalize: operations that were started have not ended within its deadline";

// Checked task: from what a program asks for to what a backend carries out. Pure.

// Throws CollectiveError, invalid_argument, about an operation of this rank.
[[noreturn]] void refuse(Operation operation, const std::string& what);
// The same about a call that is no operation.
[[noreturn]] void refuse(const char* name, const std::string& what);

// Throws invalid_argument unless the enumerators are known and fit each other, the ranks are of this
// communicator, and pointers of buffers that count are aligned, not null where they have elements, and
// overlap not at all or as in-place use does.
Task checked_task(const OperationRequest& request, int rank, int world_size);

// What a rank tells the others of counted parts: the counts of its input's, for each rank, then of its
// output's.
std::vector<std::uint64_t> counts_of(const Parts& parts);
// The largest of what all ranks have told, in their order. Throws invalid_argument, the same on all ranks,
// where what one has for another is not what that expects.
std::uint64_t agreed_count(const Call& call, std::span<const std::uint64_t> all, int world_size);

inline constexpr std::size_t kMostJoined = std::size_t{256}
                                           << 10;  // more take longer to copy than to meet for
// An all_reduce of several parts as few of one buffer, which reduce() carries out in order: large parts where
// they lie, small ones in `room` of kMostJoined bytes; null: it throws at once.
void reduce_parts(const Task& task, std::byte* room, const std::function<void(const Task&)>& reduce);

// A group of sends and receives, each checked. Throws invalid_argument if one receives into memory of
// another. Without members for null and none.
Task checked_group(std::shared_ptr<const std::vector<Task>> members);

}  // namespace detail
}  // namespace ddprun
