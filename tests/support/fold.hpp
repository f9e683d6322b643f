// What a reduction must give, to the last bit: a plain fold over the ranks in their order, of inputs that
// every rank can tell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "collectives/types.hpp"

namespace ddprun {

// A hash, so that any rank can tell any other's input without being told.
template <class T>
T value_of(std::size_t salt, int rank, std::size_t i) {
    std::uint64_t x = (salt * 1'000'003 + static_cast<std::uint64_t>(rank)) * 0x9e37'79b9'7f4a'7c15 + i;
    x = (x ^ x >> 31) * 0xbf58'476d'1ce4'e5b9;
    x ^= x >> 29;
    if constexpr (std::is_integral_v<T>) return static_cast<T>(x);
    return static_cast<T>(static_cast<double>(x % 2'000'001) / 1000.0 - 999.9995);
}

template <class T>
std::vector<T> input(std::size_t salt, int rank, std::size_t count) {
    std::vector<T> data(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = value_of<T>(salt, rank, i);
    return data;
}

template <class T>
T apply(ReduceOp op, T a, T b) {
    if (op == ReduceOp::min) return std::min(a, b);
    if (op == ReduceOp::max) return std::max(a, b);
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        const auto product = static_cast<U>(a) * static_cast<U>(b);
        return static_cast<T>(op == ReduceOp::prod ? product : static_cast<U>(a) + static_cast<U>(b));
    } else {
        return op == ReduceOp::prod ? a * b : a + b;
    }
}

template <class T>
std::vector<T> reduced(std::size_t salt, int n, std::size_t first, std::size_t count, ReduceOp op) {
    std::vector<T> result(count);
    for (std::size_t i = 0; i < count; ++i) {
        T sum = value_of<T>(salt, 0, first + i);
        for (int rank = 1; rank < n; ++rank) sum = apply(op, sum, value_of<T>(salt, rank, first + i));
        result[i] = op == ReduceOp::avg ? static_cast<T>(sum / static_cast<T>(n)) : sum;
    }
    return result;
}

template <class T>
bool same(std::span<const T> a, std::span<const T> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace ddprun
