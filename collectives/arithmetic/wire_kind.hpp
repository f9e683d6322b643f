// WireKind: as what the elements of a reduction travel between ranks over TCP, and the arithmetic of those
// that are compressed for it. PartialKind: as what reductions over some of the ranks are carried. Pure.
//
// Compressed elements are f32 on the ranks and 16 bits wide on the way. They are combined as f32 and rounded
// when they leave a rank. A rank whose values others get rounded uses the rounded ones itself, so that all
// ranks have the same bits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/call/call.hpp"

namespace ddprun::inline detail {

struct WireKind {
    DataType type;  // on the ranks
    DataType wire;  // on the way: `type`, or f16 or bf16 for f32
    ReduceOp op;    // of compressed elements no avg
    // Compressed elements are divided by it before they travel, which keeps averages in the range of f16.
    int divisor = 1;

    bool compressed() const noexcept { return wire != type; }
};

// The kind of elements that travel as they are.
inline WireKind as_it_is(DataType type, ReduceOp op) noexcept { return {type, type, op}; }
// The kind of the f32 of a call that asks for compression.
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

// The kind of partial results, to which other ranks' will be added: what must be rounded once only, at the end, is
// carried as f32 until then; averages are carried as sums.
struct PartialKind {
    DataType type;     // of the elements
    DataType carried;  // f32 for what is rounded at the end
    ReduceOp op;       // sum for avg
    int averaged = 0;  // what sums are divided by at the end; 0: nothing
    WireKind across;   // as what those of one host travel to the others
};

PartialKind partial_kind(const Call& call, int world_size);

// out = part_of(0) op … op part_of(n - 1), for two parts or more, not finished. `out` overlaps no part.
template <class PartOf>
void reduce_partial(const PartialKind& kind, int n, std::byte* out, std::size_t count, PartOf part_of) {
    if (kind.carried == kind.type) {
        combine(kind.op, kind.type, out, part_of(1), part_of(0), count);
        for (int i = 2; i < n; ++i) combine(kind.op, kind.type, out, part_of(i), out, count);
        return;
    }
    constexpr std::size_t kBlock = 2048;
    std::array<float, kBlock> next;
    for (std::size_t done = 0; done < count; done += kBlock) {
        const std::size_t size = std::min(kBlock, count - done);
        float* sum = reinterpret_cast<float*>(out) + done;
        const auto widened = [&](int i, float* to) {
            widen(kind.type, to, part_of(i) + done * size_of(kind.type), size);
        };
        widened(0, sum);
        for (int i = 1; i < n; ++i) {
            widened(i, next.data());
            combine(kind.op, kind.carried, sum, next.data(), sum, size);
        }
    }
}

// The partial results of all ranks together, divided and rounded, at `out`, which may be `partial`. Changes
// `partial`.
void finish_partial(const PartialKind& kind, std::byte* out, std::byte* partial, std::size_t count);

}  // namespace ddprun::inline detail
