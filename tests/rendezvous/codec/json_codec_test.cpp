#include "rendezvous/codec/json_codec.hpp"

#include "tests/rendezvous/codec/codec_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {

constexpr std::size_t limit_of(Of<&Part::name>) { return 12; }
constexpr std::size_t limit_of(Of<&Whole::numbers>) { return 3; }

namespace {

namespace json = boost::json;

struct Rules : JsonRules {
    static constexpr std::size_t kMaxText = 20;
    static constexpr std::size_t kMaxItemText = 15;
    static constexpr std::size_t kMaxItems = 5;
};

std::string written(const Whole& whole) {
    json::object object;
    put_members<Rules>(object, whole);
    return json::serialize(object);
}

std::optional<Whole> read(std::string_view text) {
    const auto object = parse_json_object(text, 4, true);
    std::optional<Whole> whole(std::in_place);
    if (!object || !take_members<Rules>(*object, *whole)) whole.reset();
    return whole;
}

json::object sample() { return json::parse(written(Whole{})).as_object(); }

std::optional<Whole> with(std::string_view member, json::value value) {
    json::object object = sample();
    object[member] = std::move(value);
    return read(json::serialize(object));
}

}  // namespace

TEST_CASE("json codec: anything comes back, and no part of it does") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    RandomValues facts(seed);
    for (int i = 0; i < 500; ++i) {
        const auto whole = facts.make<Whole>();
        const std::string text = written(whole);
        REQUIRE(read(text) == whole);
        REQUIRE_FALSE(read(text.substr(0, facts.below(text.size()))));
        std::string damaged = text;
        for (int n = 0; n < 3; ++n) damaged[facts.below(text.size())] = static_cast<char>(facts.below(256));
        if (const auto other = read(damaged)) REQUIRE(read(written(*other)) == other);
    }
}

TEST_CASE("json codec: members stand in the order of the description, one and all") {
    std::string names;
    for (const auto& member : sample()) names += std::string(member.key()) + " ";
    CHECK(names ==
          "flag small number large unsigned_large colour text maybe maybe_part part numbers texts parts ");
    for (const auto& member : sample()) {
        json::object object = sample();
        object.erase(member.key());
        CHECK_FALSE(read(json::serialize(object)));
    }
    CHECK(with("nobody knows", {1, 2}));
}

TEST_CASE("json codec: other types and numbers out of range are refused") {
    const std::vector<json::value> values = {nullptr,       true, 1, 1.5, "text", json::array{nullptr},
                                             json::object{}};
    const std::map<std::string, std::vector<std::size_t>> fitting = {
        {"flag", {1}},   {"small", {2}}, {"number", {2}},   {"large", {2}},      {"unsigned_large", {2}},
        {"colour", {}},  {"text", {4}},  {"maybe", {0, 2}}, {"maybe_part", {0}}, {"part", {}},
        {"numbers", {}}, {"texts", {}},  {"parts", {}}};
    for (const auto& [member, places] : fitting) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            INFO(member << " " << json::serialize(values[i]));
            const bool fits = std::find(places.begin(), places.end(), i) != places.end();
            CHECK(with(member, values[i]).has_value() == fits);
        }
    }
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    CHECK(with("small", 127));
    CHECK_FALSE(with("small", 128));
    CHECK(with("small", -128));
    CHECK_FALSE(with("small", -129));
    CHECK_FALSE(with("number", kMax));
    CHECK(with("large", kMax));
    CHECK_FALSE(with("large", std::uint64_t{1} << 63));
    CHECK(with("unsigned_large", std::numeric_limits<std::uint64_t>::max())->unsigned_large ==
          ~std::uint64_t{0});
    CHECK_FALSE(with("unsigned_large", -1));
    CHECK_FALSE(with("numbers", {1, kMax}));
    CHECK(with("colour", "blue")->colour == Colour::blue);
    CHECK_FALSE(with("colour", "Blue"));
    CHECK_FALSE(with("colour", 3));
}

TEST_CASE("json codec: limits hold when reading, and writing keeps them") {
    CHECK(with("text", json::string(20, 'x')));
    CHECK_FALSE(with("text", json::string(21, 'x')));
    CHECK_FALSE(with("part", {{"name", json::string(13, 'x')}, {"size", 1}}));
    CHECK_FALSE(with("texts", {json::string(16, 'x')}));
    CHECK(with("numbers", {1, 2, 3}));
    CHECK_FALSE(with("numbers", {1, 2, 3, 4}));
    CHECK_FALSE(with("texts", {"", "", "", "", "", ""}));

    Whole whole{.text = std::string(30, 'x')};
    whole.part.name = "0123456789ä0";
    whole.texts = {std::string(14, 'x') + "ä"};
    const auto back = read(written(whole));
    REQUIRE(back);
    CHECK(back->text.size() == 20);
    CHECK(back->part.name == "0123456789ä");
    CHECK(back->texts[0] == std::string(14, 'x'));
}

TEST_CASE("json codec: what is no object, too deep or not UTF-8 is refused") {
    for (const char* text : {"", " ", "1", "[]", "null", "{", "{} {}", "{\"a\":}"})
        CHECK_FALSE(parse_json_object(text, 4));
    CHECK(parse_json_object(R"({"a":[[[1]]]})", 4));
    CHECK_FALSE(parse_json_object(R"({"a":[[[[1]]]]})", 4));
    CHECK_FALSE(parse_json_object(std::string(100'000, '['), 32));
    CHECK_FALSE(parse_json_object("{\"a\":\"\xff\"}", 4));
    CHECK(parse_json_object("{\"a\":\"\xff\"}", 4, true));
}

}  // namespace ddprun
