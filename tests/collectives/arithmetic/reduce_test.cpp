#include "collectives/arithmetic/reduce.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/reference.hpp"

using namespace ddprun;

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg};

// A conversion by vectors may make a NaN quiet on the way to floats, too.
std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value) | (std::isnan(value) ? 0x40'0000U : 0U);
}

}  // namespace

TEMPLATE_TEST_CASE("16-bit numbers are converted by vectors to the bits of one conversion each", "[reduce]",
                   Float16, BFloat16) {
    constexpr DataType kType = data_type_of<TestType>();
    std::vector<TestType> narrow_ones;
    for (std::uint32_t bits = 0; bits < 65'536; ++bits)
        narrow_ones.push_back(TestType::from_bits(static_cast<std::uint16_t>(bits)));
    std::vector<float> wide_ones;
    for (std::uint32_t high = 0; high < 65'536; ++high) {
        // Around the middles that both types round at.
        for (const std::uint32_t low :
             {0x0U, 0x1U, 0xfffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU})
            wide_ones.push_back(std::bit_cast<float>(high << 16 | low));
    }
    // The vectors' last elements are not many, too. An assertion for each number would take longer than all
    // of this.
    for (const std::size_t begin : {0, 3}) {
        std::vector<std::size_t> wrong;
        std::vector<float> wide(narrow_ones.size() - begin);
        widen(kType, wide.data(), narrow_ones.data() + begin, wide.size());
        for (std::size_t i = 0; i < wide.size(); ++i)
            if (bits_of(wide[i]) != bits_of(static_cast<float>(narrow_ones[begin + i]))) wrong.push_back(i);
        std::vector<TestType> narrowed(wide_ones.size() - begin);
        narrow(kType, narrowed.data(), wide_ones.data() + begin, narrowed.size());
        for (std::size_t i = 0; i < narrowed.size(); ++i)
            if (narrowed[i].bits != TestType(wide_ones[begin + i]).bits) wrong.push_back(i);
        CAPTURE(begin);
        REQUIRE(wrong == std::vector<std::size_t>{});
    }
}

TEMPLATE_TEST_CASE("combine applies every operation to every element", "[reduce]", float, double,
                   std::int32_t, std::int64_t) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> value(-1000, 1000);
    for (const std::size_t count : {0, 1, 3, 8, 31, 1000}) {
        std::vector<TestType> received(count);
        std::vector<TestType> local(count);
        for (auto& x : received) x = static_cast<TestType>(value(random));
        for (auto& x : local) x = static_cast<TestType>(value(random));
        for (const ReduceOp op : kOps) {
            std::vector<TestType> out(count, TestType{99});
            std::vector<TestType> in_place = local;
            combine(op, data_type_of<TestType>(), out.data(), received.data(), local.data(), count);
            combine(op, data_type_of<TestType>(), in_place.data(), received.data(), in_place.data(), count);
            for (std::size_t i = 0; i < count; ++i) {
                REQUIRE(out[i] == reduce_two(op, received[i], local[i]));
                REQUIRE(in_place[i] == out[i]);
            }
        }
    }
}

TEST_CASE("min and max of a NaN are a NaN, wherever it stands", "[reduce]") {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
        const std::vector<float> received{nan, 1.0F, nan};
        const std::vector<float> local{1.0F, nan, nan};
        std::vector<float> out(3);
        combine(op, DataType::f32, out.data(), received.data(), local.data(), 3);
        for (const float x : out) REQUIRE(std::isnan(x));
    }
}

TEST_CASE("integers wrap around instead of overflowing", "[reduce]") {
    const std::int32_t largest = std::numeric_limits<std::int32_t>::max();
    const std::int32_t one = 1;
    const std::int32_t two = 2;
    std::int32_t out = 0;
    combine(ReduceOp::sum, DataType::i32, &out, &largest, &one, 1);
    REQUIRE(out == std::numeric_limits<std::int32_t>::min());
    combine(ReduceOp::prod, DataType::i32, &out, &largest, &two, 1);
    REQUIRE(out == -2);
}

TEST_CASE("an average divides, and of integers truncates towards zero", "[reduce]") {
    std::vector<std::int64_t> integers{7, -7, 9, 0};
    finish_average(DataType::i64, integers.data(), integers.size(), 3);
    REQUIRE(integers == std::vector<std::int64_t>{2, -2, 3, 0});
    std::vector<float> floats{1.0F, -3.0F};
    finish_average(DataType::f32, floats.data(), floats.size(), 3);
    REQUIRE(floats == std::vector<float>{1.0F / 3.0F, -1.0F});
}

TEST_CASE("the number of ranks need not fit into the element to divide by it", "[reduce]") {
    std::vector<std::int8_t> small{100, -128};
    finish_average(DataType::i8, small.data(), small.size(), 200);
    REQUIRE(small == std::vector<std::int8_t>{0, 0});
    std::vector<std::uint8_t> bytes{255};
    finish_average(DataType::u8, bytes.data(), bytes.size(), 256);
    REQUIRE(bytes[0] == 0);
}

TEST_CASE("reductions of all inputs at once are those in pairs, but for the rounding of 16 bits",
          "[reduce]") {
    std::mt19937 random(11);
    for (const std::size_t count : {0, 1, 2047, 2048, 5000}) {
        std::vector<std::vector<BFloat16>> inputs(3, std::vector<BFloat16>(count));
        std::vector<const void*> places;
        for (auto& input : inputs) {
            for (auto& x : input) x = random_element<BFloat16>(random, ReduceOp::avg);
            places.push_back(input.data());
        }
        std::vector<BFloat16> out(count);
        combine_all(ReduceOp::avg, DataType::bf16, out.data(), places, count);
        for (std::size_t i = 0; i < count; ++i) {
            REQUIRE(out[i] ==
                    reference_reduction<BFloat16>(ReduceOp::avg, {inputs[0][i], inputs[1][i], inputs[2][i]}));
        }
    }
}

TEST_CASE("every operation is defined for the types it has a meaning for", "[arithmetic]") {
    constexpr DataType kFloats[] = {DataType::f32, DataType::f64, DataType::f16, DataType::bf16};
    constexpr DataType kIntegers[] = {DataType::i8,  DataType::u8,  DataType::i32,
                                      DataType::u32, DataType::i64, DataType::u64};
    for (const ReduceOp op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
        for (const DataType type : kFloats) REQUIRE_FALSE(is_defined(op, type));
        for (const DataType type : kIntegers) REQUIRE(is_defined(op, type));
    }
    for (const DataType type : kFloats) REQUIRE(is_defined(ReduceOp::premul_sum, type));
    for (const DataType type : kIntegers) REQUIRE_FALSE(is_defined(ReduceOp::premul_sum, type));
    for (const ReduceOp op : kOps) {
        for (const DataType type : kFloats) REQUIRE(is_defined(op, type));
        for (const DataType type : kIntegers) REQUIRE(is_defined(op, type));
    }
}

TEST_CASE("every enumerator has a name, and nothing else is known", "[arithmetic]") {
    REQUIRE(name_of(DataType::i64) == "i64");
    REQUIRE(size_of(DataType::f64) == 8);
    REQUIRE(name_of(ReduceOp::avg) == "avg");
    REQUIRE_FALSE(is_known(static_cast<DataType>(200)));
    REQUIRE_FALSE(is_known(static_cast<ReduceOp>(200)));
    REQUIRE(name_of(static_cast<ReduceOp>(200)) == "unknown");
    REQUIRE(data_type_of<long>() == DataType::i64);
    REQUIRE(data_type_of<long long>() == DataType::i64);
    REQUIRE(data_type_of<int>() == DataType::i32);
    REQUIRE(data_type_of<signed char>() == DataType::i8);
    REQUIRE(data_type_of<unsigned long long>() == DataType::u64);
    REQUIRE(size_of(data_type_of<BFloat16>()) == 2);
    STATIC_REQUIRE_FALSE(Element<bool> || Element<char> || Element<short> || Element<char32_t>);
    STATIC_REQUIRE_FALSE(Element<const int> || Element<const float>);
    // The numbers travel between ranks.
    REQUIRE(static_cast<int>(DataType::bf16) == 9);
    REQUIRE(static_cast<int>(ReduceOp::bxor) == 8);
}
