#include "collectives/float16.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

// What the bits mean, by the definition of the formats.
float meaning(std::uint32_t bits, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>((bits >> fraction_bits) & ((1U << exponent_bits) - 1U));
    const auto fraction = static_cast<float>(bits & ((1U << fraction_bits) - 1U));
    const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
    if (exponent == (1 << exponent_bits) - 1) {
        return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                             : std::numeric_limits<float>::quiet_NaN();
    }
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp(fraction + std::ldexp(1.0F, fraction_bits), exponent - bias - fraction_bits);
}

template <class T>
struct Format;
template <>
struct Format<Float16> {
    static constexpr int exponent = 5, fraction = 10;
    static constexpr std::uint16_t infinity = 0x7c00;
};
template <>
struct Format<BFloat16> {
    static constexpr int exponent = 8, fraction = 7;
    static constexpr std::uint16_t infinity = 0x7f80;
};

template <class T>
float to_float(std::uint32_t bits) {
    return static_cast<float>(T::from_bits(static_cast<std::uint16_t>(bits)));
}

}  // namespace

TEMPLATE_TEST_CASE("all 65,536 values are converted to float as the format defines, and back to themselves",
                   "[float16]", Float16, BFloat16) {
    // An assertion for each would take longer than all the conversions.
    std::vector<std::uint32_t> wrong;
    for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
        const float expected = meaning(bits, Format<TestType>::exponent, Format<TestType>::fraction);
        const float actual = to_float<TestType>(bits);
        const std::uint16_t back = TestType(actual).bits;
        const bool is_right =
            std::isnan(expected)
                ? std::isnan(actual) && std::signbit(actual) == ((bits & 0x8000U) != 0) &&
                      back == (bits | (1U << (Format<TestType>::fraction - 1)))
                : std::bit_cast<std::uint32_t>(actual) == std::bit_cast<std::uint32_t>(expected) &&
                      back == bits;
        if (!is_right) wrong.push_back(bits);
    }
    REQUIRE(wrong == std::vector<std::uint32_t>{});
}

// Between every two neighbours: the middle goes to the even one, and what is next to it to the nearer one.
TEMPLATE_TEST_CASE("floats are rounded to the nearest value, ties to even", "[float16]", Float16, BFloat16) {
    const float inf = std::numeric_limits<float>::infinity();
    std::vector<std::uint32_t> wrong;
    for (std::uint32_t low = 0; low < Format<TestType>::infinity; ++low) {
        const std::uint32_t high = low + 1;
        // What the next larger value would be, where that is infinity.
        const double below = to_float<TestType>(low);
        const double above = high < Format<TestType>::infinity
                                 ? static_cast<double>(to_float<TestType>(high))
                                 : 2 * below - static_cast<double>(to_float<TestType>(low - 1));
        const auto middle = static_cast<float>((below + above) / 2);
        for (const std::uint32_t sign : {0U, 0x8000U}) {
            const float s = sign == 0 ? 1.0F : -1.0F;
            const bool is_right = TestType(s * middle).bits == ((low % 2 == 0 ? low : high) | sign) &&
                                  TestType(s * std::nextafter(middle, 0.0F)).bits == (low | sign) &&
                                  TestType(s * std::nextafter(middle, inf)).bits == (high | sign);
            if (!is_right) wrong.push_back(low | sign);
        }
    }
    REQUIRE(wrong == std::vector<std::uint32_t>{});
}

TEMPLATE_TEST_CASE("what is too large becomes infinity, what is too small zero", "[float16]", Float16,
                   BFloat16) {
    const float largest = std::numeric_limits<float>::max();
    const float smallest = std::numeric_limits<float>::denorm_min();
    REQUIRE(TestType(largest).bits == Format<TestType>::infinity);
    REQUIRE(TestType(-largest).bits == (Format<TestType>::infinity | 0x8000));
    REQUIRE(TestType(smallest).bits == 0);
    REQUIRE(TestType(-smallest).bits == 0x8000);
}

TEMPLATE_TEST_CASE("equality is of values, not of bits", "[float16]", Float16, BFloat16) {
    REQUIRE(TestType(0.0F) == TestType(-0.0F));
    REQUIRE(TestType(1.5F) == TestType(1.5F));
    REQUIRE_FALSE(TestType(1.5F) == TestType(-1.5F));
    const TestType nan(std::numeric_limits<float>::quiet_NaN());
    REQUIRE_FALSE(nan == nan);
    REQUIRE(TestType{}.bits == 0);
}

TEST_CASE("conversions are constant expressions", "[float16]") {
    static_assert(Float16(1.0F).bits == 0x3c00);
    static_assert(BFloat16(1.0F).bits == 0x3f80);
    static_assert(static_cast<float>(Float16::from_bits(1)) == 1.0F / (1 << 24));
    static_assert(Float16(65504.0F).bits == 0x7bff);
}
