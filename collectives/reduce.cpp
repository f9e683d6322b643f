#include "collectives/reduce.hpp"

#include "rendezvous/check.hpp"

namespace ddprun {
namespace {

// Signed overflow is undefined in C++; the unsigned type of the same size wraps around.
template <class T>
struct Wrapping {
    using Type = T;
};
template <>
struct Wrapping<std::int32_t> {
    using Type = std::uint32_t;
};
template <>
struct Wrapping<std::int64_t> {
    using Type = std::uint64_t;
};

template <class T>
struct Sum {
    static T apply(T a, T b) {
        using W = typename Wrapping<T>::Type;
        return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
    }
};

template <class T>
struct Product {
    static T apply(T a, T b) {
        using W = typename Wrapping<T>::Type;
        return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
    }
};

// `a != a` holds for NaN only, and keeps the choice free of branches so that it vectorizes.
template <class T>
struct Minimum {
    static T apply(T a, T b) { return (a != a) || (a < b) ? a : b; }
};

template <class T>
struct Maximum {
    static T apply(T a, T b) { return (a != a) || (a > b) ? a : b; }
};

// Two loops because only buffers known not to overlap are vectorized, and `out` is often `local`.
template <class T, template <class> class Op>
void loop(void* out_bytes, const void* received_bytes, const void* local_bytes, std::size_t count) {
    const T* __restrict received = static_cast<const T*>(received_bytes);
    if (out_bytes == local_bytes) {
        T* __restrict both = static_cast<T*>(out_bytes);
        for (std::size_t i = 0; i < count; ++i) both[i] = Op<T>::apply(received[i], both[i]);
        return;
    }
    T* __restrict out = static_cast<T*>(out_bytes);
    const T* __restrict local = static_cast<const T*>(local_bytes);
    for (std::size_t i = 0; i < count; ++i) out[i] = Op<T>::apply(received[i], local[i]);
}

template <class T>
void combine_as(ReduceOp op, void* out, const void* received, const void* local, std::size_t count) {
    switch (op) {
        case ReduceOp::sum:
        case ReduceOp::avg: return loop<T, Sum>(out, received, local, count);
        case ReduceOp::prod: return loop<T, Product>(out, received, local, count);
        case ReduceOp::min: return loop<T, Minimum>(out, received, local, count);
        case ReduceOp::max: return loop<T, Maximum>(out, received, local, count);
    }
    check(false, "a reduction is one of the known ones here");
}

template <class T>
void divide(void* bytes, std::size_t count, int ranks) {
    T* data = static_cast<T*>(bytes);
    const T divisor = static_cast<T>(ranks);
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<T>(data[i] / divisor);
}

}  // namespace

void combine(ReduceOp op, DataType type, void* out, const void* received, const void* local,
             std::size_t count) {
    switch (type) {
        case DataType::f32: return combine_as<float>(op, out, received, local, count);
        case DataType::f64: return combine_as<double>(op, out, received, local, count);
        case DataType::i32: return combine_as<std::int32_t>(op, out, received, local, count);
        case DataType::i64: return combine_as<std::int64_t>(op, out, received, local, count);
    }
    check(false, "an element type is one of the known ones here");
}

void finish_average(DataType type, void* data, std::size_t count, int ranks) {
    switch (type) {
        case DataType::f32: return divide<float>(data, count, ranks);
        case DataType::f64: return divide<double>(data, count, ranks);
        case DataType::i32: return divide<std::int32_t>(data, count, ranks);
        case DataType::i64: return divide<std::int64_t>(data, count, ranks);
    }
    check(false, "an element type is one of the known ones here");
}

}  // namespace ddprun
