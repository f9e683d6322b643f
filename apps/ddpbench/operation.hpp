// The operations ddpbench knows: how nccl-tests counts their bytes, and how to call them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "collectives/communicator.hpp"

namespace ddprun::inline app {

// One call. In place, `in` and `out` are what the operation's contract asks for.
struct OperationCall {
    const void* in = nullptr;
    void* out = nullptr;
    std::size_t count = 0;  // elements, of each rank's part where the operation has parts
    DataType type = DataType::f32;
    Reduction reduction = ReduceOp::sum;
    int root = 0;
};

struct TimedOperation {
    std::string_view name;
    bool reduces = false;
    bool has_root = false;
    bool out_at_root_only = false;  // the others' `out` is not touched
    // How many of a call's `count` the two buffers hold: 1, or one for each rank.
    bool in_has_parts = false;
    bool out_has_parts = false;
    bool out_of_place = true;
    bool in_place = true;
    int min_ranks = 1;
    // Its bus bandwidth divided by its algorithm bandwidth, for so many ranks (nccl-tests' PERFORMANCE.md).
    double (*bus_factor)(int ranks) = nullptr;
    void (*run)(Communicator& communicator, const OperationCall& call) = nullptr;

    bool has_parts() const { return in_has_parts || out_has_parts; }
};

std::span<const TimedOperation> operations();

// Finds it by its name, with or without nccl-tests' ending "_perf"; null if there is none.
const TimedOperation* find_operation(std::string_view name);

}  // namespace ddprun::inline app
