// OperationRequest: one operation with its arguments, as every way to ask for one hands it over. Public,
// pure.
//
// Programs call the operations by name (operations.hpp); this is what is beneath them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collectives/types.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// The values travel between ranks: add, never renumber.
enum class Operation : std::uint8_t {
    none = 0,  // nothing called so far
    all_reduce = 1,
    broadcast = 2,
    all_gather = 3,
    reduce_scatter = 4,
    barrier = 5,
    send = 6,
    recv = 7,
    join = 8,  // the making of the communicator; never in a message
    reduce = 9,
    gather = 10,
    scatter = 11,
    all_to_all = 12,
    split = 13,
    group = 15,  // of sends and receives, which are its messages
    parts = 16,  // the counts of the parts of what comes next, whose number is the root
};

// Sizes of the buffers of a typed form, in elements.
struct BufferSizes {
    std::size_t in = 0;
    std::size_t out = 0;
};

// Part says where one rank's part of a buffer lies, in elements. An input's is only read.
struct Part {
    void* data = nullptr;
    std::size_t count = 0;
};

struct OperationRequest {
    Operation operation = Operation::none;
    const void* in = nullptr;
    void* out = nullptr;
    // Elements: of each rank's share for all_gather and gather (`in`), reduce_scatter and scatter (`out`) and
    // all_to_all, of the whole buffer otherwise.
    std::size_t count = 0;
    DataType type = DataType::f32;
    Reduction reduction = ReduceOp::sum;  // of all_reduce, reduce_scatter and reduce
    int peer = -1;                        // the root, where there is one; the other rank of send and recv
    // Both buffers, where they count on this rank, must be as `count` says. Nothing: the caller vouches.
    std::optional<BufferSizes> sizes = std::nullopt;
    Compression compression = Compression::none;  // of all_reduce
    std::chrono::milliseconds timeout{0};         // from when its turn comes; 0: operation_timeout
    // The parts of a buffer with one for each rank, by rank, instead of `in` or `out`, where it counts; in
    // any order in memory. all_reduce takes any number of parts of its output instead of both, which it
    // reduces in place: `count` elements in all.
    std::span<const Part> in_parts{};
    std::span<const Part> out_parts{};
    // Each part has a count of its own, and both buffers that have parts are given by them; `count` is that
    // of the buffer without. All ranks ask for it, and first tell each other. Else all parts have `count`
    // elements, and others need not be given by parts.
    bool counted = false;
};

}  // namespace ddprun
#pragma GCC visibility pop
