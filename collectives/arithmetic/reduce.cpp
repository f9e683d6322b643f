#include "collectives/arithmetic/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "rendezvous/base/check.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace ddprun {
inline namespace detail {
namespace {

// The code is built for the oldest processor of its architecture; loops that gain from wider vectors are
// handed to with_widest_vectors(), which has them compiled for each level and takes the highest that this
// processor has. The arithmetic is the same at each: no level joins a multiplication and an addition. aarch64
// has one level: every processor has NEON, for which the compiler vectorizes the loops as they are.
#if defined(__x86_64__)
enum class VectorLevel { portable, avx2, avx512 };

VectorLevel find_vector_level() noexcept {
    __builtin_cpu_init();
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    // Not every compiler can ask for F16C by name. The system keeps its registers where it keeps those of
    // AVX2.
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    if (f16c && __builtin_cpu_supports("avx2") != 0) return avx512 ? VectorLevel::avx512 : VectorLevel::avx2;
    return VectorLevel::portable;
}

VectorLevel vector_level() noexcept {
    static const VectorLevel level = find_vector_level();
    return level;
}

// F16C is asked for, too: it converts f16.
template <class Body>
[[gnu::target("avx2,f16c")]] void with_avx2(Body body) {
    body();
}

template <class Body>
[[gnu::target("avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]] void with_avx512(Body body) {
    body();
}
#endif

// Runs body(), which must be a lambda marked always_inline.
template <class Body>
void with_widest_vectors(Body body) {
#if defined(__x86_64__)
    if (vector_level() == VectorLevel::avx512) return with_avx512(body);
    if (vector_level() == VectorLevel::avx2) return with_avx2(body);
#endif
    body();
}

template <class T>
constexpr bool kHalfWide = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Signed overflow is undefined in C++; the unsigned type of the same size wraps around.
template <class T>
struct Wrapping {
    using Type = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                             std::type_identity<T>>::type;
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
// NOLINTBEGIN(misc-redundant-expression)
template <class T>
struct Minimum {
    static T apply(T a, T b) { return (a != a) || (a < b) ? a : b; }
};

template <class T>
struct Maximum {
    static T apply(T a, T b) { return (a != a) || (a > b) ? a : b; }
};
// NOLINTEND(misc-redundant-expression)
template <class T>
struct BitAnd {
    static T apply(T a, T b) { return static_cast<T>(a & b); }
};

template <class T>
struct BitOr {
    static T apply(T a, T b) { return static_cast<T>(a | b); }
};

template <class T>
struct BitXor {
    static T apply(T a, T b) { return static_cast<T>(a ^ b); }
};

template <class T, template <class> class Op>
T apply(T a, T b) {
    if constexpr (kHalfWide<T>) {
        return T(Op<float>::apply(static_cast<float>(a), static_cast<float>(b)));
    } else {
        return Op<T>::apply(a, b);
    }
}

// Element by element, so `out` may also be an input; the pragma tells that nothing else overlaps.
template <class T, template <class> class Op>
[[gnu::always_inline]] inline void each(T* out, const T* received, const T* local, std::size_t count) {
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (std::size_t i = 0; i < count; ++i) out[i] = apply<T, Op>(received[i], local[i]);
}

template <class T, template <class> class Op>
void loop(void* out_bytes, const void* received_bytes, const void* local_bytes, std::size_t count) {
    T* out = static_cast<T*>(out_bytes);
    const T* received = static_cast<const T*>(received_bytes);
    const T* local = static_cast<const T*>(local_bytes);
    with_widest_vectors([=]() __attribute__((always_inline)) { each<T, Op>(out, received, local, count); });
}

template <class T>
void combine_bits(ReduceOp op, void* out, const void* received, const void* local, std::size_t count) {
    if constexpr (std::is_integral_v<T>) {
        if (op == ReduceOp::band) return loop<T, BitAnd>(out, received, local, count);
        if (op == ReduceOp::bor) return loop<T, BitOr>(out, received, local, count);
        return loop<T, BitXor>(out, received, local, count);
    }
    check(false, "bits are combined of integers only");
}

template <class T>
void combine_as(ReduceOp op, void* out, const void* received, const void* local, std::size_t count) {
    switch (op) {
        case ReduceOp::sum:
        case ReduceOp::premul_sum:
        case ReduceOp::avg: return loop<T, Sum>(out, received, local, count);
        case ReduceOp::prod: return loop<T, Product>(out, received, local, count);
        case ReduceOp::min: return loop<T, Minimum>(out, received, local, count);
        case ReduceOp::max: return loop<T, Maximum>(out, received, local, count);
        case ReduceOp::band:
        case ReduceOp::bor:
        case ReduceOp::bxor: return combine_bits<T>(op, out, received, local, count);
    }
    check(false, "a reduction is one of the known ones here");
}

template <class T>
void divide(void* bytes, std::size_t count, int ranks) {
    T* data = static_cast<T*>(bytes);
    if constexpr (kHalfWide<T>) {
        const auto divisor = static_cast<float>(ranks);
        for (std::size_t i = 0; i < count; ++i) data[i] = T(static_cast<float>(data[i]) / divisor);
    } else if constexpr (std::is_integral_v<T>) {
        // The number of ranks need not fit into the element.
        using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
        const auto divisor = static_cast<Wide>(ranks);
        for (std::size_t i = 0; i < count; ++i)
            data[i] = static_cast<T>(static_cast<Wide>(data[i]) / divisor);
    } else {
        const T divisor = static_cast<T>(ranks);
        for (std::size_t i = 0; i < count; ++i) data[i] = data[i] / divisor;
    }
}

// Calls body(T{}) with the C++ type of `type`.
template <class Body>
void with_type(DataType type, Body body) {
    switch (type) {
        case DataType::f32: return body(float{});
        case DataType::f64: return body(double{});
        case DataType::i32: return body(std::int32_t{});
        case DataType::i64: return body(std::int64_t{});
        case DataType::i8: return body(std::int8_t{});
        case DataType::u8: return body(std::uint8_t{});
        case DataType::u32: return body(std::uint32_t{});
        case DataType::u64: return body(std::uint64_t{});
        case DataType::f16: return body(Float16{});
        case DataType::bf16: return body(BFloat16{});
    }
    check(false, "an element type is one of the known ones here");
}

template <class T>
void scale_as(void* out_bytes, const void* in_bytes, std::size_t count, double scalar) {
    using Factor = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const T* in = static_cast<const T*>(in_bytes);
    T* out = static_cast<T*>(out_bytes);
    const auto factor = static_cast<Factor>(scalar);
    for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<T>(static_cast<Factor>(in[i]) * factor);
}

template <class T>
void widen_as(float* out, const void* in, std::size_t count) {
    const T* values = static_cast<const T*>(in);
    with_widest_vectors([=]() __attribute__((always_inline)) {
        for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(values[i]);
    });
}

template <class T>
void narrow_as(void* out, const float* in, std::size_t count) {
    T* values = static_cast<T*>(out);
    with_widest_vectors([=]() __attribute__((always_inline)) {
        for (std::size_t i = 0; i < count; ++i) values[i] = T(in[i]);
    });
}

#if defined(__x86_64__)
constexpr std::size_t kHalvesAtOnce = 8;

// The processor's own conversions round as Float16's do. Return how many of `count` they converted.
[[gnu::target("avx,f16c")]] std::size_t widen_by_f16c(float* out, const void* in, std::size_t count) {
    const auto* values = static_cast<const std::uint16_t*>(in);
    const std::size_t whole = count / kHalvesAtOnce * kHalvesAtOnce;
    for (std::size_t i = 0; i < whole; i += kHalvesAtOnce) {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
    }
    return whole;
}

[[gnu::target("avx,f16c")]] std::size_t narrow_by_f16c(void* out, const float* in, std::size_t count) {
    auto* values = static_cast<std::uint16_t*>(out);
    const std::size_t whole = count / kHalvesAtOnce * kHalvesAtOnce;
    for (std::size_t i = 0; i < whole; i += kHalvesAtOnce) {
        const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(values + i), halves);
    }
    return whole;
}

std::size_t widen_by_processor(float* out, const void* in, std::size_t count) {
    return vector_level() == VectorLevel::portable ? 0 : widen_by_f16c(out, in, count);
}

std::size_t narrow_by_processor(void* out, const float* in, std::size_t count) {
    return vector_level() == VectorLevel::portable ? 0 : narrow_by_f16c(out, in, count);
}
#elif defined(__aarch64__)
constexpr std::size_t kHalvesAtOnce = 4;

// The processor's own conversions round as Float16's do. Return how many of `count` they converted.
std::size_t widen_by_processor(float* out, const void* in, std::size_t count) {
    const auto* values = static_cast<const __fp16*>(in);
    const std::size_t whole = count / kHalvesAtOnce * kHalvesAtOnce;
    for (std::size_t i = 0; i < whole; i += kHalvesAtOnce)
        vst1q_f32(out + i, vcvt_f32_f16(vld1_f16(values + i)));
    return whole;
}

std::size_t narrow_by_processor(void* out, const float* in, std::size_t count) {
    auto* values = static_cast<__fp16*>(out);
    const std::size_t whole = count / kHalvesAtOnce * kHalvesAtOnce;
    for (std::size_t i = 0; i < whole; i += kHalvesAtOnce)
        vst1_f16(values + i, vcvt_f16_f32(vld1q_f32(in + i)));
    return whole;
}
#else
std::size_t widen_by_processor(float*, const void*, std::size_t) { return 0; }
std::size_t narrow_by_processor(void*, const float*, std::size_t) { return 0; }
#endif

void widen_f16(float* out, const void* in, std::size_t count) {
    const std::size_t done = widen_by_processor(out, in, count);
    widen_as<Float16>(out + done, static_cast<const Float16*>(in) + done, count - done);
}

void narrow_f16(void* out, const float* in, std::size_t count) {
    const std::size_t done = narrow_by_processor(out, in, count);
    narrow_as<Float16>(static_cast<Float16*>(out) + done, in + done, count - done);
}

using WideBlock = std::array<float, kWideBlock>;

template <class Body>
void by_blocks(std::size_t count, Body body) {
    for (std::size_t first = 0; first < count; first += kWideBlock)
        body(first, std::min(kWideBlock, count - first));
}

// One block of combine_all for the types that are accumulated in f32.
void combine_wide(ReduceOp op, DataType type, std::byte* out, std::span<const void* const> inputs,
                  std::size_t first, std::size_t count) {
    WideBlock sum;
    WideBlock next;
    widen(type, sum.data(), element_at(inputs[0], first, type), count);
    for (const void* input : inputs.subspan(1)) {
        widen(type, next.data(), element_at(input, first, type), count);
        combine(op, DataType::f32, sum.data(), next.data(), sum.data(), count);
    }
    if (op == ReduceOp::avg)
        finish_average(DataType::f32, sum.data(), count, static_cast<int>(inputs.size()));
    narrow(type, out + first * size_of(type), sum.data(), count);
}

// The rank's own elements as they count: where they are, or divided in `room`.
const float* divided(const WireKind& kind, const void* local, std::size_t first, std::size_t count,
                     WideBlock& room) {
    const float* values = static_cast<const float*>(local) + first;
    if (kind.divisor == 1) return values;
    std::copy_n(values, count, room.data());
    finish_average(kind.type, room.data(), count, kind.divisor);
    return room.data();
}

}  // namespace

void combine(ReduceOp op, DataType type, void* out, const void* received, const void* local,
             std::size_t count) {
    with_type(type, [&](auto one) { combine_as<decltype(one)>(op, out, received, local, count); });
}

void finish_average(DataType type, void* data, std::size_t count, int ranks) {
    with_type(type, [&](auto one) { divide<decltype(one)>(data, count, ranks); });
}

void combine_all(ReduceOp op, DataType type, void* out, std::span<const void* const> inputs,
                 std::size_t count) {
    if (count == 0) return;
    if (carries_f32(op, type)) {
        return by_blocks(count, [&](std::size_t first, std::size_t size) {
            combine_wide(op, type, static_cast<std::byte*>(out), inputs, first, size);
        });
    }
    std::memcpy(out, inputs[0], count * size_of(type));
    for (const void* input : inputs.subspan(1)) combine(op, type, out, input, out, count);
    if (op == ReduceOp::avg) finish_average(type, out, count, static_cast<int>(inputs.size()));
}

void scale(DataType type, void* out, const void* in, std::size_t count, double scalar) {
    if (type == DataType::f32) return scale_as<float>(out, in, count, scalar);
    if (type == DataType::f64) return scale_as<double>(out, in, count, scalar);
    if (type == DataType::f16) return scale_as<Float16>(out, in, count, scalar);
    check(type == DataType::bf16, "only floating point is scaled");
    scale_as<BFloat16>(out, in, count, scalar);
}

bool carries_f32(ReduceOp op, DataType type) noexcept {
    const bool half_wide = type == DataType::f16 || type == DataType::bf16;
    return half_wide && op != ReduceOp::min && op != ReduceOp::max;
}

void widen(DataType type, float* out, const void* in, std::size_t count) {
    if (type == DataType::f16) return widen_f16(out, in, count);
    check(type == DataType::bf16, "only 16-bit floating point is widened");
    widen_as<BFloat16>(out, in, count);
}

void narrow(DataType type, void* out, const float* in, std::size_t count) {
    if (type == DataType::f16) return narrow_f16(out, in, count);
    check(type == DataType::bf16, "only 16-bit floating point is narrowed");
    narrow_as<BFloat16>(out, in, count);
}

WireKind compressed_kind(const Call& call, int world_size) noexcept {
    const DataType wire = call.compression == Compression::f16 ? DataType::f16 : DataType::bf16;
    const bool averages = call.reduce == ReduceOp::avg;
    return {DataType::f32, wire, averages ? ReduceOp::sum : call.reduce, averages ? world_size : 1};
}

void compress(const WireKind& kind, void* wire, const void* local, std::size_t count) {
    WideBlock room;
    by_blocks(count, [&](std::size_t first, std::size_t size) {
        narrow(kind.wire, element_at(wire, first, kind.wire), divided(kind, local, first, size, room), size);
    });
}

void combine_compressed(const WireKind& kind, void* wire, const void* received, const void* local,
                        std::size_t count) {
    WideBlock sum;
    WideBlock room;
    by_blocks(count, [&](std::size_t first, std::size_t size) {
        widen(kind.wire, sum.data(), element_at(received, first, kind.wire), size);
        combine(kind.op, kind.type, sum.data(), sum.data(), divided(kind, local, first, size, room), size);
        narrow(kind.wire, element_at(wire, first, kind.wire), sum.data(), size);
    });
}

void combine_expanded(const WireKind& kind, void* out, std::span<const void* const> inputs,
                      std::size_t count) {
    WideBlock next;
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

}  // namespace detail
}  // namespace ddprun
