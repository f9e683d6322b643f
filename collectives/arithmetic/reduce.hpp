// combine() and its like: elementwise reduction on host memory, the arithmetic beneath all_reduce and
// reduce_scatter. Pure.
//
// Results depend only on the operands, never on how a buffer is cut into calls. The operands are always taken
// as (received, local), so the order of the ranks fixes every bit of the result. Pointers are aligned for the
// type; counts are elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "collectives/call/call.hpp"
#include "collectives/types.hpp"

namespace ddprun {
inline namespace detail {

// kWideBlock: elements that are carried in f32 at a time, so that the partial results stay in the cache.
inline constexpr std::size_t kWideBlock = 2048;

// Returns where element `first` of the data is.
inline std::byte* element_at(void* data, std::size_t first, DataType type) {
    return static_cast<std::byte*>(data) + first * size_of(type);
}
inline const std::byte* element_at(const void* data, std::size_t first, DataType type) {
    return static_cast<const std::byte*>(data) + first * size_of(type);
}

// Combines: out[i] = received[i] op local[i]; avg and premul_sum sum (see finish_average and scale). `out`
// may be one of the two inputs; otherwise the three buffers do not overlap. f16 and bf16 are combined in f32
// and rounded, in every call. A caller that reduces more than two such inputs uses combine_all, or widens
// first.
void combine(ReduceOp op, DataType type, void* out, const void* received, const void* local,
             std::size_t count);

// Divides: data[i] /= ranks, for the sums of ReduceOp::avg. Integers truncate towards zero.
void finish_average(DataType type, void* data, std::size_t count, int ranks);

// Reduces: out[i] = the finished reduction over all inputs' [i], taken in order, averages divided; one input
// at least. f16 and bf16 are accumulated in f32 and rounded once. `out` overlaps no input, except that where
// carries_f32 it may be one of them.
void combine_all(ReduceOp op, DataType type, void* out, std::span<const void* const> inputs,
                 std::size_t count);

// Multiplies: out[i] = in[i] * scalar, for the inputs of ReduceOp::premul_sum; floating point only. `out` may
// be `in` itself.
void scale(DataType type, void* out, const void* in, std::size_t count, double scalar);

// Returns true where partial results must be carried in f32 to be rounded only once: for f16 and bf16, except
// with min and max, which choose among values.
bool carries_f32(ReduceOp op, DataType type) noexcept;

// Converts f16 or bf16 to f32, exactly; narrow() converts back, rounded to nearest even.
void widen(DataType type, float* out, const void* in, std::size_t count);
void narrow(DataType type, void* out, const float* in, std::size_t count);

// WireKind: the type as which the elements of a reduction travel between ranks over TCP, and the arithmetic
// of compressed ones. PartialKind: the type as which reductions over some of the ranks are carried. Pure.
//
// Compressed elements are f32 on the ranks and 16 bits wide on the way. The ranks combine them as f32 and
// round them when they leave a rank. A rank that sends rounded values uses the rounded ones itself, so that
// all ranks have the same bits.
struct WireKind {
    DataType type;  // on the ranks
    DataType wire;  // on the way: `type`, or f16 or bf16 for f32
    ReduceOp op;    // of compressed elements no avg
    // divisor: what compressed elements are divided by before they travel, which keeps averages in the range
    // of f16.
    int divisor = 1;

    bool compressed() const noexcept { return wire != type; }
};

// Returns the kind of elements that travel as they are.
inline WireKind as_it_is(DataType type, ReduceOp op) noexcept { return {type, type, op}; }
// Returns the kind of the f32 of a call that asks for compression.
WireKind compressed_kind(const Call& call, int world_size) noexcept;

// Compresses: wire[i] = local[i], divided and rounded.
//
// The functions from here on are for compressed kinds. `local`, and results that are float, are elements on a
// rank; the others are as they travel. Nothing overlaps.
void compress(const WireKind& kind, void* wire, const void* local, std::size_t count);
// Combines: wire[i] = received[i] op local[i], which is divided first; rounded.
void combine_compressed(const WireKind& kind, void* wire, const void* received, const void* local,
                        std::size_t count);
// Reduces: out[i] = the reduction over all inputs' [i], taken in order; not rounded. `inputs` must not be
// empty.
void combine_expanded(const WireKind& kind, void* out, std::span<const void* const> inputs,
                      std::size_t count);

// PartialKind: the kind of partial results, to which other ranks' will be added. What must be rounded once
// only, at the end, is carried as f32 until then; averages are carried as sums.
struct PartialKind {
    DataType type;     // of the elements
    DataType carried;  // f32 for what is rounded at the end
    ReduceOp op;       // sum for avg
    int averaged = 0;  // what sums are divided by at the end; 0: nothing
    WireKind across;   // the kind in which one host's partial results travel to the others
};

PartialKind partial_kind(const Call& call, int world_size);

// Reduces out = part_of(0) op … op part_of(n - 1), for two parts or more, not finished. `out` overlaps no
// part.
template <class PartOf>
void reduce_partial(const PartialKind& kind, int n, std::byte* out, std::size_t count, PartOf part_of) {
    if (kind.carried == kind.type) {
        combine(kind.op, kind.type, out, part_of(1), part_of(0), count);
        for (int i = 2; i < n; ++i) combine(kind.op, kind.type, out, part_of(i), out, count);
        return;
    }
    std::array<float, kWideBlock> next;
    for (std::size_t done = 0; done < count; done += kWideBlock) {
        const std::size_t size = std::min(kWideBlock, count - done);
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

// Finishes the partial results of all ranks together, divided and rounded, at `out`, which may be `partial`.
// Changes `partial`.
void finish_partial(const PartialKind& kind, std::byte* out, std::byte* partial, std::size_t count);

}  // namespace detail
}  // namespace ddprun
