#include "launcher/harmless_text.hpp"

#include <random>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

const std::string kUnknown = "\xEF\xBF\xBD";

std::string random_bytes(std::mt19937& random, std::size_t most) {
    static const std::string interesting =
        "\x1b[]0;m\a\r\t\n\x7f\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\x80 abc";
    std::string bytes(random() % most, ' ');
    for (char& c : bytes)
        c = random() % 2 == 0 ? interesting[random() % interesting.size()] : static_cast<char>(random());
    return bytes;
}

}  // namespace

TEST_CASE("harmless lines") {
    struct Row {
        std::string line, shown;
    };
    const Row rows[] = {
        {"plain text", "plain text"},
        {"", ""},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\x1b[1;31mred\x1b[0m", "red"},
        {"\x1b]0;title\arest", "rest"},
        {"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
        {"\x1bPdevice\x1b\\rest", "rest"},
        {"\x1b[31", "?[31"},
        {"\x1b]0;never closed", "?]0;never closed"},
        {"\x1b"
         "c",
         "?c"},
        {"\x1b", "?"},
        {"it is not\rall is well", "it is not?all is well"},
        {"3\r", "3?"},
        {"a\tb", "a    b"},
        {std::string("a\0b", 3), "a?b"},
        {"a\x7f\x01", "a??"},
        {"\xc2\x9b"
         "31m",
         "?31m"},  // C1 CSI
        {"\xe2\x80\xae"
         "evil",
         "?evil"},              // right-to-left override
        {"\xe2\x80\xa8", "?"},  // line separator
        {"\xef\xbb\xbf"
         "bom",
         "?bom"},
        {"\xff", kUnknown},
        {"\xc0\xaf", kUnknown + kUnknown},                                // overlong
        {"\xed\xa0\x80", kUnknown + kUnknown + kUnknown},                 // surrogate
        {"\xf4\x90\x80\x80", kUnknown + kUnknown + kUnknown + kUnknown},  // beyond Unicode
        {"\xe2\x82", kUnknown + kUnknown},                                // cut short
        {"a\nb", "a?b"},
    };
    for (const Row& row : rows) {
        INFO(row.line);
        CHECK(harmless_line(row.line) == row.shown);
    }
}

TEST_CASE("of a program's line what its carriage returns have overwritten is left out") {
    CHECK(harmless_output_line("10%\r50%\r100%") == "100%");
    CHECK(harmless_output_line("done\r\r") == "done");
    CHECK(harmless_output_line("old\r\x1b[1mnew\x1b[0m\a") == "new?");
}

TEST_CASE("harmless lines have a limit and keep characters whole") {
    CHECK(harmless_line("0123456789", 10) == "0123456789");
    CHECK(harmless_line("0123456789a", 10) == "0123456...");
    CHECK(harmless_line("01234\xe2\x82\xac"
                        "89ab",
                        10) == "01234...");
    CHECK(harmless_line(std::string(1'000'000, 'x')).size() == kMaxShownLine);
}

TEST_CASE("valid UTF-8 keeps what is valid") {
    CHECK(valid_utf8("a\n\x1b\xc3\xa9") == "a\n\x1b\xc3\xa9");
    CHECK(valid_utf8("a\xff\xc3") == "a" + kUnknown + kUnknown);
}

TEST_CASE("a cut in the middle keeps both ends") {
    CHECK(cut_middle("short", 64) == "short");
    const std::string text = std::string(5000, 'a') + std::string(5000, 'z');
    const std::string cut = cut_middle(text, 1000);
    CHECK(cut.size() <= 1000);
    CHECK(cut.size() > 990);
    CHECK_THAT(cut, Catch::StartsWith(std::string(300, 'a')) && Catch::EndsWith(std::string(600, 'z')));
    CHECK_THAT(cut, Catch::Contains("\n... 9030 bytes left out ...\n"));
}

TEST_CASE("lines of a text") {
    CHECK(lines_of("").empty());
    CHECK(lines_of("a") == std::vector<std::string_view>{"a"});
    CHECK(lines_of("a\n\nb\n") == std::vector<std::string_view>{"a", "", "b"});
}

TEST_CASE("any bytes become harmless, and harmless text stays as it is") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    for (int repeat = 0; repeat < 2000; ++repeat) {
        const std::string bytes = random_bytes(random, 600);
        const std::size_t limit = 10 + random() % 300;
        const std::string line = harmless_line(bytes, limit);
        REQUIRE(line.size() <= limit);
        REQUIRE(harmless_line(line, limit) == line);
        REQUIRE(valid_utf8(line) == line);
        const std::string cut = cut_middle(bytes, 64 + limit);
        REQUIRE(cut.size() <= 64 + limit);
        REQUIRE(valid_utf8(cut) == cut);
    }
}

}  // namespace ddprun
