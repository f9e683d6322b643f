// What reductions should give: the straightforward way, one element at a time, for comparison.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "collectives/types.hpp"

namespace ddprun {

template <class T>
inline constexpr bool kSixteenBit = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Values whose reductions are exact in the type they are carried in, whatever the order, so that the result
// has to be the rounded exact one: integers of the whole range; multiples of 2^-7 in 16 bits, whose sums need
// more bits than they have; factors of 1.5 and powers of two for products.
template <Element T>
T random_element(std::mt19937& random, ReduceOp op) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(std::uint64_t{random()} << 32 | random());
    } else {
        constexpr float kFactors[] = {0.5F, 1.0F, 1.5F, 2.0F, -0.5F, -1.0F, -1.5F, -2.0F};
        if (op == ReduceOp::prod) return T(kFactors[random() % std::size(kFactors)]);
        const auto whole = static_cast<float>(static_cast<int>(random() % 1025) - 512);
        return T(kSixteenBit<T> ? whole / 128 : whole);
    }
}

template <class T>
T reduce_two(ReduceOp op, T a, T b) {
    switch (op) {
        case ReduceOp::sum:
        case ReduceOp::premul_sum:
        case ReduceOp::avg: return static_cast<T>(a + b);
        case ReduceOp::prod: return static_cast<T>(a * b);
        case ReduceOp::min: return std::min(a, b);
        case ReduceOp::max: return std::max(a, b);
        case ReduceOp::band:
        case ReduceOp::bor:
        case ReduceOp::bxor: break;
    }
    if constexpr (std::is_integral_v<T>) {
        if (op == ReduceOp::band) return static_cast<T>(a & b);
        return static_cast<T>(op == ReduceOp::bor ? a | b : a ^ b);
    }
    return T{};
}

// The reduction of one element's values, by rank.
template <Element T>
T reference_reduction(ReduceOp op, const std::vector<T>& values) {
    if constexpr (kSixteenBit<T>) {
        std::vector<float> wide;
        for (const T value : values) wide.push_back(static_cast<float>(value));
        return T(reference_reduction(op, wide));
    } else if constexpr (std::is_integral_v<T>) {
        // Sums and products of 64 bits without sign end in the right lower bits, whatever the type.
        const bool chooses = op == ReduceOp::min || op == ReduceOp::max;
        T result = values[0];
        for (std::size_t i = 1; i < values.size(); ++i) {
            result = chooses ? reduce_two(op, result, values[i])
                             : static_cast<T>(reduce_two(op, static_cast<std::uint64_t>(result),
                                                         static_cast<std::uint64_t>(values[i])));
        }
        const auto ranks = static_cast<T>(values.size());
        return op == ReduceOp::avg ? static_cast<T>(result / ranks) : result;
    } else {
        T result = values[0];
        for (std::size_t i = 1; i < values.size(); ++i) result = reduce_two(op, result, values[i]);
        return op == ReduceOp::avg ? result / static_cast<T>(values.size()) : result;
    }
}

}  // namespace ddprun
