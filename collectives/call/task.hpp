// Task: one operation as a rank asked for it: what all ranks must agree on, and this rank's buffers. Pure.
//
// Communicator makes it from checked arguments; a Backend carries it out. Buffers are the caller's and stay
// valid until the task has ended.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "collectives/call/call.hpp"

namespace ddprun::inline detail {

struct Task {
    Call call;  // its sequence is counted by the backend
    // In place: `out` is `in` for all_reduce, reduce and all_to_all, this rank's part of it for the others.
    // broadcast has the same in both. Where they do not count (`out` of reduce and gather, and `in` of
    // scatter, but on the root; of send and recv the one that has no meaning), they may be anything.
    const void* in = nullptr;
    void* out = nullptr;
    double scalar = 1;       // of premul_sum
    void* stream = nullptr;  // of the device, in which the operation takes its place; null: the backend's own
    // Of a group, in the order in which they were added: sends and receives, whose streams do not count.
    std::shared_ptr<const std::vector<Task>> members;
};

// The parts of a task as bytes.
inline const std::byte* input_of(const Task& task) { return static_cast<const std::byte*>(task.in); }
inline std::byte* output_of(const Task& task) { return static_cast<std::byte*>(task.out); }
// Bytes of call.count elements.
inline std::size_t bytes_of(const Task& task) { return task.call.count * size_of(task.call.type); }
// A rank's part, where there is one of so many bytes for each.
inline const std::byte* input_part(const Task& task, int rank) {
    return input_of(task) + static_cast<std::size_t>(rank) * bytes_of(task);
}
inline std::byte* output_part(const Task& task, int rank) {
    return output_of(task) + static_cast<std::size_t>(rank) * bytes_of(task);
}

// Nothing to do for no bytes, whose pointers may be null, and for a buffer that is where it shall be.
inline void copy_bytes(void* out, const void* in, std::size_t bytes) {
    if (bytes > 0 && out != in) std::memcpy(out, in, bytes);
}

}  // namespace ddprun::inline detail
