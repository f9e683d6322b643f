// Task: one operation as a rank asked for it: what all ranks must agree on, and this rank's buffers. Pure.
//
// Communicator makes a Task from checked arguments; a Backend carries it out. Buffers are the caller's and
// stay valid until the task has ended.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "collectives/call/call.hpp"
#include "collectives/operation_request.hpp"

namespace ddprun {
inline namespace detail {

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

}  // namespace detail
}  // namespace ddprun
