// Backend: one way to carry out the operations of a communicator: alone, over TCP, in shared memory, by NCCL.
//
// A Backend is driven by Communicator, which has checked every argument: enumerators are known, ranks are in
// range, pointers are aligned and (where count > 0) not null. Buffers overlap not at all, or as
// communicator.hpp allows. A single thread at a time calls it; any may call abort() and verdict(). Throws
// CollectiveError. The destructor leaves in order and never throws.
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

// Runs body(), which throws nothing, on a thread of the process that does nothing else meanwhile. Each body
// gets a thread at once, since it may wait for another; idle threads end after a while. Where no thread can
// be made and none is there, body() runs in the caller's.
void run_beside(std::function<void()> body);

// WorkState: what a Work stands for. Each way of carrying out operations in the background has its own kind.
//
// A WorkState is shared by the thread that carries the operation out and those that wait; any thread. In a
// forked child only is_of_parent() may be called, and nothing is destroyed (make_in_process).
class WorkState {
  public:
    virtual ~WorkState() = default;

    bool is_of_parent() const noexcept { return process_ != this_process(); }
    // Returns true when the operation has ended, well or not.
    virtual bool ended() = 0;
    // Waits for the end, until `deadline` at most. Returns false if the operation has not ended then.
    virtual bool wait_until(Deadline deadline) = 0;
    // Calls done(), which keeps this object, once, after the end: at once if the operation has ended, else by
    // run_beside().
    virtual void then(std::function<void()> done) = 0;
    // Returns, after the end, what went wrong.
    virtual std::optional<CollectiveError> error() = 0;
    // See Work::source().
    virtual int source() { return -1; }

  private:
    const ProcessNumber process_ = this_process();
};

// Parts: where a task's buffers lie, if not in one piece.
//
// Where the parts are counted, both lists have an element for each rank. A buffer without parts is then
// listed as the part for, or from, each rank that has anything of it. Else a list is empty where the buffer
// is in one piece.
struct Parts {
    std::vector<Part> in;
    std::vector<Part> out;
    bool counted = false;
};

// Task: one operation as a rank asked for it: what all ranks must agree on, and this rank's buffers. Pure.
//
// Communicator makes a Task from checked arguments; a Backend carries it out. Buffers are the caller's and
// stay valid until the task has ended.
struct Task {
    Call call;  // the backend counts its sequence
    // in, out: the buffers. In an operation in place `out` is `in` for all_reduce, reduce and all_to_all,
    // this rank's part of `in` for the others; broadcast has the same in both. Buffers that do not count may
    // be anything: `out` of reduce and gather, and `in` of scatter, except on the root; `out` of send, and
    // `in` of recv.
    const void* in = nullptr;
    void* out = nullptr;
    double scalar = 1;       // of premul_sum
    void* stream = nullptr;  // of the device, in which the operation takes its place; null: the backend's own
    // members: the sends and receives of a group, in the order in which they were added; their streams do not
    // count.
    std::shared_ptr<const std::vector<Task>> members;
    std::chrono::milliseconds timeout{0};  // from when the task's turn comes; 0: the communicator's
    // parts: null where both buffers are in one piece. Where the parts are counted, call.count is the largest
    // of all ranks' counts when a backend gets the task.
    std::shared_ptr<const Parts> parts = nullptr;
};

// Returns the input as bytes.
inline const std::byte* input_of(const Task& task) { return static_cast<const std::byte*>(task.in); }
inline std::byte* output_of(const Task& task) { return static_cast<std::byte*>(task.out); }
// Returns the bytes of call.count elements.
inline std::size_t bytes_of(const Task& task) { return task.call.count * size_of(task.call.type); }
// Returns a rank's part of `data`, or of the list `parts` where the task has one.
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
// Returns the bytes of a rank's part of the input: of a buffer without parts, what goes to that rank.
inline std::size_t input_bytes(const Task& task, int rank) {
    return part_of(task, &Parts::in, task.in, rank).count * size_of(task.call.type);
}
inline std::size_t output_bytes(const Task& task, int rank) {
    return part_of(task, &Parts::out, task.out, rank).count * size_of(task.call.type);
}

// Copies; does nothing for 0 bytes, with pointers that may be null, and for a buffer that is in its place
// already.
inline void copy_bytes(void* out, const void* in, std::size_t bytes) {
    if (bytes > 0 && out != in) std::memcpy(out, in, bytes);
}

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

// kLongestTimeout: longer ones could overflow the clock.
inline constexpr std::chrono::hours kLongestTimeout{24 * 3650};

// kStartedNotEnded: why leave() aborts where operations that were started have not ended by its deadline.
inline constexpr const char* kStartedNotEnded =
    "finalize: operations that were started have not ended within its deadline";

// checked_task(): from what a program asks for to what a backend carries out. Pure.

// Throws CollectiveError, invalid_argument, about an operation of this rank.
[[noreturn]] void refuse(Operation operation, const std::string& what);
// Throws invalid_argument about a call that is no operation.
[[noreturn]] void refuse(const char* name, const std::string& what);

// Returns the task of a request. Throws invalid_argument unless the enumerators are known and fit each other,
// and the ranks are of this communicator. Pointers of buffers that count must be aligned and not null where
// they have elements; the buffers must overlap not at all or as in-place use does.
Task checked_task(const OperationRequest& request, int rank, int world_size);

// Returns what a rank tells the others of counted parts: the counts of its input's parts, for each rank, then
// of its output's.
std::vector<std::uint64_t> counts_of(const Parts& parts);
// Returns the largest of the counts that all ranks have told, in `all` by rank. Throws invalid_argument, the
// same on all ranks, where one has another count for a rank than that rank expects.
std::uint64_t agreed_count(const Call& call, std::span<const std::uint64_t> all, int world_size);

// kMostJoined: bytes of small parts that are copied together; more take longer to copy than a meeting of the
// ranks.
inline constexpr std::size_t kMostJoined = std::size_t{256} << 10;
// Reduces an all_reduce of several parts by as few calls of reduce() as possible, in order. Large parts stay
// where they lie, small ones are copied into `room`, which has kMostJoined bytes. `room` is null where there
// was no memory for it: the communicator has ended then, and reduce() throws at once.
void reduce_parts(const Task& task, std::byte* room, const std::function<void(const Task&)>& reduce);

// Returns the task of a group of sends and receives, each checked. Throws invalid_argument if one receives
// into memory of another. The task has no members where `members` is null or empty.
Task checked_group(std::shared_ptr<const std::vector<Task>> members);

}  // namespace detail
}  // namespace ddprun
