#include "rendezvous/codec/binary_codec.hpp"

#include "tests/rendezvous/codec/codec_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

struct Mixed {
    Part part;
    std::map<std::string, std::string> map;
    std::variant<Part, Colour, std::string> variant;
    std::vector<Part> parts;
    std::chrono::milliseconds pause{0};
    std::int8_t small = 0;
    std::uint64_t large = 0;
    char letter = 'a';
    bool flag = false;
    Colour colour = Colour::red;
    bool operator==(const Mixed&) const = default;
};
BOOST_DESCRIBE_STRUCT(Mixed, (), (part, map, variant, parts, pause, small, large, letter, flag, colour))

template <class T>
bool reads_wide(std::int64_t number) {
    T value{};
    return from_bytes<WideNumbers>(to_bytes<WideNumbers>(number), value);
}

}  // namespace

TEMPLATE_TEST_CASE("binary codec: anything comes back, and no part of it does", "", WideNumbers,
                   PlainNumbers) {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues facts(seed);
    for (int i = 0; i < 500; ++i) {
        const auto mixed = facts.make<Mixed>();
        const std::string bytes = to_bytes<TestType>(mixed);
        Mixed back;
        REQUIRE(from_bytes<TestType>(bytes, back));
        REQUIRE(back == mixed);
        Mixed other;
        REQUIRE_FALSE(
            from_bytes<TestType>(std::string_view(bytes).substr(0, facts.below(bytes.size())), other));
        Mixed longer;
        REQUIRE_FALSE(from_bytes<TestType>(bytes + '\0', longer));
        // Either answer is right, as long as it comes.
        std::string damaged = bytes;
        for (int n = 0; n < 3; ++n) damaged[facts.below(bytes.size())] = static_cast<char>(facts.below(256));
        Mixed any;
        from_bytes<TestType>(damaged, any);
    }
}

TEST_CASE("binary codec: numbers are as wide as the format says") {
    CHECK(to_bytes<WideNumbers>(Part{"ab", -2}) ==
          std::string("\2\0\0\0\0\0\0\0ab\xfe\xff\xff\xff\xff\xff\xff\xff", 18));
    CHECK(to_bytes<PlainNumbers>(Part{"ab", -2}) == std::string("\2\0\0\0\0\0\0\0ab\xfe\xff\xff\xff", 14));
    CHECK(to_bytes<PlainNumbers>(Colour::blue) == "\xc8");
    CHECK(to_bytes<PlainNumbers>(true) == "\1");
}

TEST_CASE("binary codec: what its type does not hold is refused") {
    CHECK(reads_wide<std::int8_t>(-128));
    CHECK_FALSE(reads_wide<std::int8_t>(128));
    CHECK_FALSE(reads_wide<int>(std::int64_t{1} << 31));
    CHECK_FALSE(reads_wide<std::uint32_t>(-1));
    CHECK(reads_wide<bool>(1));
    CHECK_FALSE(reads_wide<bool>(2));
    CHECK(reads_wide<Colour>(200));
    CHECK_FALSE(reads_wide<Colour>(4));
    CHECK_FALSE(reads_wide<Colour>(200 + 256));
    CHECK_FALSE(reads_wide<std::variant<bool>>(1));
}

TEST_CASE("binary codec: a count of more than the bytes can hold takes no memory") {
    std::vector<Part> parts;
    CHECK_FALSE(from_bytes<WideNumbers>(to_bytes<WideNumbers>(std::int64_t{-1}), parts));
    CHECK_FALSE(from_bytes<PlainNumbers>(to_bytes<PlainNumbers>(std::int64_t{1} << 40), parts));
    CHECK(parts.empty());
    std::string text;
    CHECK_FALSE(from_bytes<WideNumbers>(to_bytes<WideNumbers>(std::int64_t{-1}), text));
    CHECK(text.empty());
}

}  // namespace ddprun
