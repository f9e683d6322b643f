#include "collectives/arithmetic/wire_kind.hpp"

#include <cstring>

namespace ddprun::inline detail {
namespace {

// Elements that are wide at a time, so that they stay in the cache.
constexpr std::size_t kBlock = 2048;
using Block = std::array<float, kBlock>;

template <class Body>
void by_blocks(std::size_t count, Body body) {
    for (std::size_t first = 0; first < count; first += kBlock) body(first, std::min(kBlock, count - first));
}

// The rank's own elements as they count: where they are, or divided in `room`.
const float* divided(const WireKind& kind, const void* local, std::size_t first, std::size_t count,
                     Block& room) {
    const float* values = static_cast<const float*>(local) + first;
    if (kind.divisor == 1) return values;
    std::copy_n(values, count, room.data());
    finish_average(kind.type, room.data(), count, kind.divisor);
    return room.data();
}

}  // namespace

WireKind compressed_kind(const Call& call, int world_size) noexcept {
    const DataType wire = call.compression == Compression::f16 ? DataType::f16 : DataType::bf16;
    const bool averages = call.reduce == ReduceOp::avg;
    return {DataType::f32, wire, averages ? ReduceOp::sum : call.reduce, averages ? world_size : 1};
}

void compress(const WireKind& kind, void* wire, const void* local, std::size_t count) {
    Block room;
    by_blocks(count, [&](std::size_t first, std::size_t size) {
        narrow(kind.wire, element_at(wire, first, kind.wire), divided(kind, local, first, size, room), size);
    });
}

void combine_compressed(const WireKind& kind, void* wire, const void* received, const void* local,
                        std::size_t count) {
    Block sum;
    Block room;
    by_blocks(count, [&](std::size_t first, std::size_t size) {
        widen(kind.wire, sum.data(), element_at(received, first, kind.wire), size);
        combine(kind.op, kind.type, sum.data(), sum.data(), divided(kind, local, first, size, room), size);
        narrow(kind.wire, element_at(wire, first, kind.wire), sum.data(), size);
    });
}

void combine_expanded(const WireKind& kind, void* out, std::span<const void* const> inputs,
                      std::size_t count) {
    Block next;
    by_blocks(count, [&](std::size_t first, std::size_t size) {
        float* sum = static_cast<float*>(out) + first;
        widen(kind.wire, sum, element_at(inputs[0], first, kind.wire), size);
        for (const void* input : inputs.subspan(1)) {
            widen(kind.wire, next.data(), element_at(input, first, kind.wire), size);
            combine(kind.op, kind.type, sum, next.data(), sum, size);
        }
    });
}

PartialKind partial_kind(const Call& call, int world_size) {
    const bool divides = call.reduce == ReduceOp::avg;
    const DataType carried = carries_f32(call.reduce, call.type) ? DataType::f32 : call.type;
    const ReduceOp op = divides ? ReduceOp::sum : call.reduce;
    // Elements that are carried as 16 bits are narrow already.
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

}  // namespace ddprun::inline detail
