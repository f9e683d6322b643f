// Float16 and BFloat16: the two 16-bit floating-point types as storage, with conversions. Public; standard
// library only.
//
// The two types hold values and convert; arithmetic is done in float. Conversion from float rounds to
// nearest, ties to even. Values that are too large become infinity; subnormals are kept, both ways; a NaN
// keeps its sign and the upper bits of its payload and becomes quiet. Conversion to float is exact. Equality
// compares values, as of floats.
#pragma once

#include <bit>
#include <cstdint>

#pragma GCC visibility push(default)
namespace ddprun {

// Float16: IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
struct Float16 {
    std::uint16_t bits = 0;

    Float16() = default;
    explicit constexpr Float16(float value) noexcept : bits(rounded(value)) {}
    static constexpr Float16 from_bits(std::uint16_t bits) noexcept {
        Float16 result;
        result.bits = bits;
        return result;
    }

    explicit constexpr operator float() const noexcept {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
        const std::uint32_t rest = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
        const std::uint32_t exponent = rest & 0x0f800000U;
        std::uint32_t result = rest + ((127U - 15U) << 23);
        if (exponent == 0x0f800000U) result += (128U - 16U) << 23;
        // A subnormal is its fraction times 2^-24: the difference of two floats of exponent -14.
        if (exponent == 0) {
            const float shifted = std::bit_cast<float>(result + (1U << 23));
            result = std::bit_cast<std::uint32_t>(shifted - std::bit_cast<float>(113U << 23));
        }
        return std::bit_cast<float>(result | sign);
    }

    friend constexpr bool operator==(Float16 a, Float16 b) noexcept {
        return static_cast<float>(a) == static_cast<float>(b);
    }

  private:
    static constexpr std::uint16_t rounded(float value) noexcept {
        const auto whole = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = (whole >> 16) & 0x8000U;
        const std::uint32_t size = whole & 0x7fffffffU;
        // The sum with 0.5 has just the bits of a subnormal, rounded by the addition itself.
        const float sum = std::bit_cast<float>(size) + 0.5F;
        const std::uint32_t subnormal =
            std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5F);
        const std::uint32_t odd = (size >> 13) & 1U;
        const std::uint32_t normal = (size - ((127U - 15U) << 23) + 0xfffU + odd) >> 13;
        const std::uint32_t nan = 0x7e00U | ((size >> 13) & 0x3ffU);
        std::uint32_t result = size < (113U << 23) ? subnormal : normal;
        if (size >= (143U << 23)) result = 0x7c00U;
        if (size > (255U << 23)) result = nan;
        return static_cast<std::uint16_t>(result | sign);
    }
};

// BFloat16: the upper half of an IEEE 754 binary32: 1 sign, 8 exponent and 7 fraction bits.
struct BFloat16 {
    std::uint16_t bits = 0;

    BFloat16() = default;
    explicit constexpr BFloat16(float value) noexcept : bits(rounded(value)) {}
    static constexpr BFloat16 from_bits(std::uint16_t bits) noexcept {
        BFloat16 result;
        result.bits = bits;
        return result;
    }

    explicit constexpr operator float() const noexcept {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
    }

    friend constexpr bool operator==(BFloat16 a, BFloat16 b) noexcept {
        return static_cast<float>(a) == static_cast<float>(b);
    }

  private:
    static constexpr std::uint16_t rounded(float value) noexcept {
        const auto whole = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t odd = (whole >> 16) & 1U;
        const std::uint32_t finite = (whole + 0x7fffU + odd) >> 16;
        const std::uint32_t nan = (whole >> 16) | 0x40U;
        return static_cast<std::uint16_t>((whole & 0x7fffffffU) > (255U << 23) ? nan : finite);
    }
};

static_assert(sizeof(Float16) == 2 && sizeof(BFloat16) == 2);

}  // namespace ddprun
#pragma GCC visibility pop
