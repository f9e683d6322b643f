// OperationRequest: one operation with its arguments, as every form of a call hands it over. Public, pure.
//
// Programs call the operations by name (operations.hpp), which make the OperationRequest.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "collectives/types.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// Operation: the number of an operation. The values travel between ranks: add, never renumber.
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
    group = 15,  // sends and receives, which are its messages
    parts = 16,  // an exchange of part counts; the Call's root is the number of the operation that comes next
};

// BufferSizes: the sizes of the buffers of a typed form, in elements.
struct BufferSizes {
    std::size_t in = 0;
    std::size_t out = 0;
};

// Part says where one rank's part of a buffer lies, and its size in elements. An input's part is only read.
struct Part {
    void* data = nullptr;
    std::size_t count = 0;
};

struct OperationRequest {
    Operation operation = Operation::none;
    const void* in = nullptr;
    void* out = nullptr;
    // count: elements of each rank's share for all_gather and gather (`in`), reduce_scatter and scatter
    // (`out`) and all_to_all; of the whole buffer otherwise.
    std::size_t count = 0;
    DataType type = DataType::f32;
    Reduction reduction = ReduceOp::sum;  // of all_reduce, reduce_scatter and reduce
    int peer = -1;                        // the root, where there is one; the other rank of send and recv
    // sizes: the sizes of `in` and `out`, which must be as `count` says where both buffers count on this
    // rank. Nothing: the caller vouches for them.
    std::optional<BufferSizes> sizes = std::nullopt;
    Compression compression = Compression::none;  // of all_reduce
    std::chrono::milliseconds timeout{0};  // from when the operation's turn comes; 0: operation_timeout
    // in_parts: the parts of a buffer that has one for each rank, listed by rank, instead of `in`, on ranks
    // where `in` counts; in any order in memory. `out_parts` likewise for `out`. all_reduce takes any number
    // of parts in `out_parts`, without other buffers, and reduces them in place: `count` elements in all.
    std::span<const Part> in_parts{};
    std::span<const Part> out_parts{};
    // counted: each part has a count of its own. A buffer that has a part for each rank is then given by
    // parts; `count` is that of the buffer without parts. All ranks set `counted`, and first tell each other
    // their counts. Otherwise all parts have `count` elements, and the other ranks need not give theirs by
    // parts.
    bool counted = false;
};

}  // namespace ddprun
#pragma GCC visibility pop
