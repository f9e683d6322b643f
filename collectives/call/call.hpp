// Call: what one rank asked for, as far as the other ranks must agree with it. Pure.
//
// Every message between ranks starts with the sender's Call, so a rank that receives another call than its
// own knows at once that the program is wrong, instead of waiting for ever or reducing garbage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collectives/call/operation_traits.hpp"

namespace ddprun::inline detail {

struct Call {
    Operation operation = Operation::none;
    DataType type = DataType::f32;
    ReduceOp reduce = ReduceOp::sum;
    std::int32_t root = -1;   // where has_root; the peer of send and recv
    std::uint64_t count = 0;  // elements, as the caller gave them; of a group its members
    // Collectives count from 1; the others carry that of the collective before them.
    std::uint64_t sequence = 0;
    Compression compression = Compression::none;

    bool operator==(const Call&) const = default;
};

// The call as its messages carry it: what sender and receiver must have in common, which for recv is a send.
Call on_wire(const Call& call) noexcept;

// `all_reduce(sum, 1000 f32) as call 7`, `all_reduce(avg, 9 f32 sent as bf16) as call 8`, `gather(5 u8 to
// rank 2) as call 1`, `send(10 f32)`, `group of 3`.
std::string describe(const Call& call);

}  // namespace ddprun::inline detail
