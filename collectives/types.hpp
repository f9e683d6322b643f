// What collectives move and how they combine it: element types and reduction operations. Public, pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ddprun {

// Element types. The values travel between ranks: add, never renumber.
enum class DataType : std::uint8_t { f32 = 0, f64 = 1, i32 = 2, i64 = 3 };

// How the ranks' values for one element become one value.
//   sum, prod   integers wrap around on overflow
//   min, max    a NaN of any rank is the result
//   avg         the sum divided by the number of ranks; integers truncate towards zero
enum class ReduceOp : std::uint8_t { sum = 0, prod = 1, min = 2, max = 3, avg = 4 };

bool is_known(DataType type) noexcept;
bool is_known(ReduceOp op) noexcept;

// Bytes of one element; 0 for a value that is no DataType.
std::size_t size_of(DataType type) noexcept;

// "f32", "sum" …; "unknown" for a value outside the enum.
std::string_view name_of(DataType type) noexcept;
std::string_view name_of(ReduceOp op) noexcept;

// The C++ types that can be reduced: float, double, and signed integers of 32 or 64 bits under any of their
// names.
template <class T>
concept Element = std::is_same_v<T, float> || std::is_same_v<T, double> ||
    (std::is_integral_v<T>&& std::is_signed_v<T> && (sizeof(T) == 4 || sizeof(T) == 8) &&
     !std::is_same_v<T, wchar_t>);

template <Element T>
constexpr DataType data_type_of() noexcept {
    if constexpr (std::is_same_v<T, float>) return DataType::f32;
    if constexpr (std::is_same_v<T, double>) return DataType::f64;
    if constexpr (std::is_integral_v<T>) return sizeof(T) == 4 ? DataType::i32 : DataType::i64;
}

}  // namespace ddprun
