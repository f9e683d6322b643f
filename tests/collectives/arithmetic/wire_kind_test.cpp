#include "collectives/arithmetic/reduce.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

using namespace ddprun;

namespace {

// More than what is converted at a time, and no multiple of it.
constexpr std::size_t kCount = 5'003;

template <class T>
struct Kind;
template <>
struct Kind<Float16> {
    static constexpr DataType kType = DataType::f16;
};
template <>
struct Kind<BFloat16> {
    static constexpr DataType kType = DataType::bf16;
};

std::vector<float> some_values(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-100, 100);
    std::vector<float> values(kCount);
    for (float& x : values) x = value(random);
    values[3] = std::numeric_limits<float>::infinity();
    values[4] = 1e30F;
    return values;
}

Call asking(DataType type, ReduceOp op, Compression compression) {
    Call call{Operation::all_reduce, type, op, -1, kCount};
    call.compression = compression;
    return call;
}

}  // namespace

TEMPLATE_TEST_CASE("elements are divided, rounded, and combined as f32", "[compression]", Float16, BFloat16) {
    for (const int divisor : {1, 3}) {
        const WireKind kind{DataType::f32, Kind<TestType>::kType, ReduceOp::sum, divisor};
        const auto a = some_values(1);
        const auto b = some_values(2);
        std::vector<TestType> first(kCount);
        std::vector<TestType> second(kCount);
        std::vector<TestType> both(kCount);
        std::vector<float> out(kCount);
        compress(kind, first.data(), a.data(), kCount);
        compress(kind, second.data(), b.data(), kCount);
        combine_compressed(kind, both.data(), first.data(), b.data(), kCount);
        const std::array<const void*, 2> inputs{first.data(), second.data()};
        combine_expanded(kind, out.data(), inputs, kCount);
        const auto divided = [&](float x) { return x / static_cast<float>(divisor); };
        for (std::size_t i = 0; i < kCount; ++i) {
            REQUIRE(first[i] == TestType(divided(a[i])));
            REQUIRE(both[i] == TestType(static_cast<float>(first[i]) + divided(b[i])));
            REQUIRE(out[i] == static_cast<float>(first[i]) + static_cast<float>(second[i]));
        }
    }
}

TEST_CASE("what travels follows from the call", "[compression]") {
    const auto across = [](DataType type, ReduceOp op, Compression compression) {
        return partial_kind(asking(type, op, compression), 6).across;
    };
    const WireKind plain = across(DataType::f32, ReduceOp::avg, Compression::none);
    REQUIRE(!plain.compressed());
    REQUIRE(plain.wire == DataType::f32);
    const WireKind mean = across(DataType::f32, ReduceOp::avg, Compression::f16);
    REQUIRE(mean.compressed());
    REQUIRE((mean.wire == DataType::f16 && mean.op == ReduceOp::sum && mean.divisor == 6));
    // Divided before, so not again.
    REQUIRE(partial_kind(asking(DataType::f32, ReduceOp::avg, Compression::f16), 6).averaged == 0);
    const WireKind sum = across(DataType::bf16, ReduceOp::sum, Compression::bf16);
    REQUIRE((sum.type == DataType::f32 && sum.wire == DataType::bf16 && sum.divisor == 1));
    REQUIRE(!across(DataType::bf16, ReduceOp::max, Compression::bf16).compressed());
    REQUIRE(across(DataType::bf16, ReduceOp::sum, Compression::none).wire == DataType::f32);
}
