// Partial results: reductions over some of the ranks, of which others are still missing. Pure.
//
// What must be rounded once only, at the end, is carried as f32 until then; averages are carried as sums.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "collectives/arithmetic/reduce.hpp"
#include "collectives/arithmetic/wire_kind.hpp"
#include "collectives/call/call.hpp"

namespace ddprun {

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

}  // namespace ddprun
