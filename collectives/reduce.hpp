// Elementwise reduction on host memory: the arithmetic beneath all_reduce and reduce_scatter. Pure.
//
// Results depend only on the operands, never on how a buffer is cut into calls, and the operands are always
// taken as (received, local); so whoever fixes the order of the ranks fixes every bit of the result. Pointers
// are aligned for the type; counts are elements.
#pragma once

#include <cstddef>

#include "collectives/types.hpp"

namespace ddprun {

// out[i] = received[i] op local[i]; avg sums (see finish_average). `out` may be `local` itself; otherwise the
// three buffers do not overlap.
void combine(ReduceOp op, DataType type, void* out, const void* received, const void* local,
             std::size_t count);

// data[i] /= ranks, for the sums of ReduceOp::avg. Integers truncate towards zero.
void finish_average(DataType type, void* data, std::size_t count, int ranks);

}  // namespace ddprun
