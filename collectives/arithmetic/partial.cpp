#include "collectives/arithmetic/partial.hpp"

#include <cstring>

namespace ddprun {

PartialKind partial_kind(const Call& call, int world_size) {
    const bool divides = call.reduce == ReduceOp::avg;
    const DataType carried = carries_f32(call.reduce, call.type) ? DataType::f32 : call.type;
    const ReduceOp op = divides ? ReduceOp::sum : call.reduce;
    // What is carried as 16 bits is narrow already.
    const bool compressed = call.compression != Compression::none && carried == DataType::f32;
    if (compressed) return {call.type, carried, op, 0, compressed_kind(call, world_size)};
    return {call.type, carried, op, divides ? world_size : 0, as_it_is(carried, op)};
}

void finish_partial(const PartialKind& kind, std::byte* out, std::byte* partial, std::size_t count) {
    if (count == 0) return;
    if (kind.averaged != 0) finish_average(kind.carried, partial, count, kind.averaged);
    if (kind.carried != kind.type) {
        narrow(kind.type, out, reinterpret_cast<const float*>(partial), count);
    } else if (out != partial) {
        std::memcpy(out, partial, count * size_of(kind.type));
    }
}

}  // namespace ddprun
