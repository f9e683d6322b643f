// WireKind: as what the elements of a reduction travel between ranks over TCP, and the arithmetic of those
// that are compressed for it. Pure.
//
// Compressed elements are f32 on the ranks and 16 bits wide on the way. They are combined as f32 and rounded
// when they leave a rank. A rank whose values others get rounded uses the rounded ones itself, so that all
// ranks have the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/call/call.hpp"
#include "collectives/types.hpp"

namespace ddprun {

struct WireKind {
    DataType type;  // on the ranks
    DataType wire;  // on the way: `type`, or f16 or bf16 for f32
    ReduceOp op;    // of compressed elements no avg
    // Compressed elements are divided by it before they travel, which keeps averages in the range of f16.
    int divisor = 1;

    bool compressed() const noexcept { return wire != type; }
};

// For elements that travel as they are.
inline WireKind as_it_is(DataType type, ReduceOp op) noexcept { return {type, type, op}; }
// For the f32 of a call that asks for compression.
WireKind compressed_kind(const Call& call, int world_size) noexcept;

// All for compressed kinds; `local`, and the results that are float, are elements on a rank, the others are
// as they travel. Nothing overlaps.
//
// wire[i] = local[i], divided and rounded.
void compress(const WireKind& kind, void* wire, const void* local, std::size_t count);
// wire[i] = received[i] op local[i], which is divided; rounded.
void combine_compressed(const WireKind& kind, void* wire, const void* received, const void* local,
                        std::size_t count);
// out[i] = the reduction over all inputs' [i], taken in order; not rounded. One input at least.
void combine_expanded(const WireKind& kind, void* out, std::span<const void* const> inputs,
                      std::size_t count);

}  // namespace ddprun
