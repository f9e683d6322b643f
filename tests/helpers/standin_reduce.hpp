// What NCCL's stand-in computes: straightforward reductions, ranks in order.
#pragma once

#include <cstring>
#include <string>

#include "collectives/nccl/cuda_driver.hpp"
#include "tests/helpers/standin_hub.hpp"
#include "tests/support/reference.hpp"

namespace ddprun {
namespace standin {

// body(T{}) for the C++ type of the elements.
template <class Body>
auto with_type(NcclType type, Body body) {
    switch (type) {
        case NcclType::int8: return body(std::int8_t{});
        case NcclType::uint8: return body(std::uint8_t{});
        case NcclType::int32: return body(std::int32_t{});
        case NcclType::uint32: return body(std::uint32_t{});
        case NcclType::int64: return body(std::int64_t{});
        case NcclType::uint64: return body(std::uint64_t{});
        case NcclType::float16: return body(Float16{});
        case NcclType::float32: return body(float{});
        case NcclType::float64: return body(double{});
        case NcclType::bfloat16: break;
    }
    return body(BFloat16{});
}

inline std::size_t size_of(NcclType type) {
    return with_type(type, [](auto zero) { return sizeof(zero); });
}

inline ReduceOp reduce_op(NcclOp op) {
    switch (op) {
        case NcclOp::sum: break;
        case NcclOp::prod: return ReduceOp::prod;
        case NcclOp::max: return ReduceOp::max;
        case NcclOp::min: return ReduceOp::min;
        case NcclOp::avg: return ReduceOp::avg;
    }
    return ReduceOp::sum;
}

// A scalar of ncclRedOpCreatePreMulSum.
struct Scaling {
    double scalar = 1;
};

inline Scaling scaling_of(NcclType type, const void* scalar) {
    return with_type(type, [&](auto value) {
        std::memcpy(&value, scalar, sizeof value);
        if constexpr (sizeof(value) == 2)
            return Scaling{static_cast<double>(static_cast<float>(value))};
        else
            return Scaling{static_cast<double>(value)};
    });
}

inline void scale(NcclType type, Bytes& data, const Scaling& scaling) {
    with_type(type, [&](auto value) {
        for (std::size_t at = 0; at < data.size(); at += sizeof value) {
            std::memcpy(&value, data.data() + at, sizeof value);
            if constexpr (kSixteenBit<decltype(value)>) {
                value = decltype(value)(static_cast<float>(value) * static_cast<float>(scaling.scalar));
            } else {
                value = static_cast<decltype(value)>(value * static_cast<decltype(value)>(scaling.scalar));
            }
            std::memcpy(data.data() + at, &value, sizeof value);
        }
    });
}

inline Bytes reduce(NcclType type, NcclOp op, const std::vector<Bytes>& inputs) {
    Bytes result(inputs[0].size());
    with_type(type, [&](auto value) {
        std::vector<decltype(value)> values(inputs.size());
        for (std::size_t at = 0; at < result.size(); at += sizeof value) {
            for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
                std::memcpy(&values[rank], inputs[rank].data() + at, sizeof value);
            }
            value = reference_reduction(reduce_op(op), values);
            std::memcpy(result.data() + at, &value, sizeof value);
        }
    });
    return result;
}

}  // namespace standin
}  // namespace ddprun
