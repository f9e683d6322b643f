// reduce_in_order and shm_slice: in which order the ranks of a host reduce, and which bytes each. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/shm/shm_segment.hpp"

namespace ddprun {
inline namespace detail {

// kReduceBlock: bytes that a caller with more should hand to reduce_in_order() at a time, so that the
// intermediate result stays in the first-level cache. A multiple of every element's size.
inline constexpr std::size_t kReduceBlock = std::size_t{8} << 10;

inline bool may_reduce_in_place(DataType type, ReduceOp op, int n) { return n == 2 || carries_f32(op, type); }

// reduce_in_order: out = part_of(0) op part_of(1) op … op part_of(n - 1), from left to right, of `bytes`
// each. avg divides at the end; f16 and bf16 are rounded once, there. `out` overlaps no part, but may be one
// of them where may_reduce_in_place(). 2 <= n <= kShmMaxRanks.
template <class PartOf>
void reduce_in_order(DataType type, ReduceOp op, int n, std::byte* out, std::size_t bytes, PartOf part_of) {
    const std::size_t count = bytes / size_of(type);
    if (carries_f32(op, type)) {
        std::array<const void*, kShmMaxRanks> parts;
        for (int rank = 0; rank < n; ++rank) parts[static_cast<std::size_t>(rank)] = part_of(rank);
        return combine_all(op, type, out, std::span(parts).first(static_cast<std::size_t>(n)), count);
    }
    combine(op, type, out, part_of(1), part_of(0), count);
    for (int rank = 2; rank < n; ++rank) combine(op, type, out, part_of(rank), out, count);
    if (op == ReduceOp::avg) finish_average(type, out, count, n);
}

struct ShmPiece {
    std::size_t begin = 0;
    std::size_t size = 0;
};

// kSliceUnit: slices begin at multiples of it, so that no two ranks write one line.
inline constexpr std::size_t kSliceUnit = kShmLine;

constexpr std::size_t divided_up(std::size_t value, std::size_t by) { return (value + by - 1) / by; }
constexpr std::size_t line_up(std::size_t bytes) { return divided_up(bytes, kSliceUnit) * kSliceUnit; }

// Returns the slice of `size` bytes that `rank` reduces. All slices together cover the bytes once; the last
// ones may be empty.
constexpr ShmPiece shm_slice(std::size_t size, int rank, int ranks) {
    const std::size_t each = line_up(divided_up(size, static_cast<std::size_t>(ranks)));
    const std::size_t begin = std::min(size, static_cast<std::size_t>(rank) * each);
    return {begin, std::min(each, size - begin)};
}

}  // namespace detail
}  // namespace ddprun
