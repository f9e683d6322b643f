// DataType, ReduceOp, Compression, Reduction: what collectives move, and how they combine it. Public, pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "collectives/float16.hpp"

#pragma GCC visibility push(default)
namespace ddprun {

// DataType: the types of elements. The values travel between ranks: add, never renumber.
enum class DataType : std::uint8_t {
    f32 = 0,
    f64 = 1,
    i32 = 2,
    i64 = 3,
    i8 = 4,
    u8 = 5,
    u32 = 6,
    u64 = 7,
    f16 = 8,   // Float16
    bf16 = 9,  // BFloat16
};

// ReduceOp: how the ranks' values for one element become one value.
//   sum, prod   integers wrap around on overflow
//   min, max    a NaN of any rank is the result
//   avg         the sum divided by the number of ranks; integers wrap around in the sum and truncate towards
//               zero in the division
//   premul_sum  floating point only: the sum of each rank's values times that rank's scalar (see Reduction);
//               the products are rounded to the element type before they are summed
//   band, bor, bxor   integers only: and, or, exclusive or of the bits
// f16 and bf16 are summed and multiplied in f32 over all ranks and rounded once, at the end. Over TCP they
// then travel as f32: a large reduction of f16 sends 6 bytes an element where f32 sends 8.
enum class ReduceOp : std::uint8_t {
    sum = 0,
    prod = 1,
    min = 2,
    max = 3,
    avg = 4,
    premul_sum = 5,
    band = 6,
    bor = 7,
    bxor = 8,
};

// Compression: what an all_reduce of f32 sends from host to host instead of its elements: half the bytes.
//   f16    11 bits of precision; values from 65520 up travel as infinity, up to 2^-25 as zero
//   bf16   8 bits of precision, and f32's range
// An all_reduce of f16 may be compressed as f16, of bf16 as bf16: without compression its sums travel as f32.
//
// Within the memory of a host nothing is compressed. A rank that does not use shared memory is a host of its
// own here. Values that leave a host are rounded there. With two hosts, or few bytes, each host rounds once;
// otherwise each host on the way round the ring does, at most as often as there are hosts. In between, values
// are combined as f32. Averages are divided before they travel, so they overflow f16 only where a value
// itself does.
enum class Compression : std::uint8_t { none = 0, f16 = 1, bf16 = 2 };

// Reduction: what a reducing call is given: an operation, and for premul_sum this rank's scalar, 1 unless
// premul_sum(scalar) made it. Scalars may differ between ranks, as with NCCL. All elements but f64 are
// multiplied in f32.
struct Reduction {
    ReduceOp op = ReduceOp::sum;
    double scalar = 1;

    constexpr Reduction(ReduceOp operation) noexcept : op(operation) {}
};

constexpr Reduction premul_sum(double scalar) noexcept {
    Reduction reduction(ReduceOp::premul_sum);
    reduction.scalar = scalar;
    return reduction;
}

bool is_known(DataType type) noexcept;
bool is_known(ReduceOp op) noexcept;
bool is_known(Compression compression) noexcept;
// Returns false for operations that have no meaning for the type: premul_sum of integers, bits of floating
// point. The enumerators must be known.
bool is_defined(ReduceOp op, DataType type) noexcept;
// Returns false where elements of the type cannot travel compressed so.
bool is_defined(Compression compression, DataType type) noexcept;

// Returns the bytes of one element; 0 for a value that is no DataType.
std::size_t size_of(DataType type) noexcept;

// Returns "f32", "sum" …; "unknown" for a value outside the enum.
std::string_view name_of(DataType type) noexcept;
std::string_view name_of(ReduceOp op) noexcept;
std::string_view name_of(Compression compression) noexcept;

// Element: the C++ types that can be moved and reduced: float, double, Float16, BFloat16, and integers of 8,
// 32 or 64 bits, signed or not, under any of their names. bool and character types are not among them, except
// signed char and unsigned char, which count as numbers.
template <class T>
concept Element = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, Float16> ||
    std::is_same_v<T, BFloat16> || std::is_same_v<T, signed char> || std::is_same_v<T, unsigned char> ||
    (std::is_integral_v<T>&& std::is_same_v<T, std::remove_cv_t<T>> && (sizeof(T) == 4 || sizeof(T) == 8) &&
     !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char32_t>);

template <Element T>
constexpr DataType data_type_of() noexcept {
    if constexpr (std::is_same_v<T, float>) return DataType::f32;
    if constexpr (std::is_same_v<T, double>) return DataType::f64;
    if constexpr (std::is_same_v<T, Float16>) return DataType::f16;
    if constexpr (std::is_same_v<T, BFloat16>) return DataType::bf16;
    if constexpr (std::is_integral_v<T>) {
        constexpr bool kSigned = std::is_signed_v<T>;
        if (sizeof(T) == 1) return kSigned ? DataType::i8 : DataType::u8;
        if (sizeof(T) == 4) return kSigned ? DataType::i32 : DataType::u32;
        return kSigned ? DataType::i64 : DataType::u64;
    }
}

}  // namespace ddprun
#pragma GCC visibility pop
