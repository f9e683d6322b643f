// Elementwise reduction on host memory: the arithmetic beneath all_reduce and reduce_scatter. Pure.
//
// Results depend only on the operands, never on how a buffer is cut into calls, and the operands are always
// taken as (received, local); so the order of the ranks fixes every bit of the result. Pointers
// are aligned for the type; counts are elements.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/types.hpp"

namespace ddprun::inline detail {

// Returns where element `first` of the data is.
inline std::byte* element_at(void* data, std::size_t first, DataType type) {
    return static_cast<std::byte*>(data) + first * size_of(type);
}
inline const std::byte* element_at(const void* data, std::size_t first, DataType type) {
    return static_cast<const std::byte*>(data) + first * size_of(type);
}

// out[i] = received[i] op local[i]; avg and premul_sum sum (see finish_average and scale). `out` may be
// one of the two itself; otherwise the three buffers do not overlap. f16 and bf16 are combined in f32 and
// rounded, here and each time: a caller that reduces more than two such inputs uses combine_all, or widens first.
void combine(ReduceOp op, DataType type, void* out, const void* received, const void* local,
             std::size_t count);

// data[i] /= ranks, for the sums of ReduceOp::avg. Integers truncate towards zero.
void finish_average(DataType type, void* data, std::size_t count, int ranks);

// out[i] = the finished reduction over all inputs' [i], taken in order, averages divided; one input at least.
// f16 and bf16 are accumulated in f32 and rounded once. `out` overlaps no input, but where carries_f32 it
// may be one of them.
void combine_all(ReduceOp op, DataType type, void* out, std::span<const void* const> inputs,
                 std::size_t count);

// out[i] = in[i] * scalar, for the inputs of ReduceOp::premul_sum; floating point only. `out` may be `in`
// itself.
void scale(DataType type, void* out, const void* in, std::size_t count, double scalar);

// True where partial results must be carried in f32 to be rounded only once: f16 and bf16, but for min and
// max, which choose among values.
bool carries_f32(ReduceOp op, DataType type) noexcept;

// These convert f16 or bf16 to f32, exactly, and back, rounded to nearest even.
void widen(DataType type, float* out, const void* in, std::size_t count);
void narrow(DataType type, void* out, const float* in, std::size_t count);

}  // namespace ddprun::inline detail
