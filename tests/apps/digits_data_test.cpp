#include "apps/train_digits/digits.hpp"

#include <string>
#include <vector>

#include "tests/apps/input_error_message.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// One line without its end: 64 times `pixel`, then `label`.
std::string line_of(const std::string& pixel, const std::string& label) {
    std::string line;
    for (std::size_t i = 0; i < kImagePixels; ++i) line += pixel + ",";
    return line + label;
}

// Six good lines, the third of them replaced.
std::string text_with_third_line(const std::string& third) {
    const std::string good = line_of("3", "7") + "\n";
    return good + good + third + "\n" + good + good + good;
}

TEST_CASE("digits are read with pixels from 0 to 1 and their labels", "[digits]") {
    std::string text;
    for (int label = 0; label < 6; ++label) {
        text += line_of(std::to_string(label * 3), std::to_string(label)) + "\n";
    }
    const Digits digits = parse_digits(text, "d.csv");
    REQUIRE(digits.size() == 6);
    REQUIRE(digits.pixels.size() == 6 * kImagePixels);
    for (std::size_t i = 0; i < digits.size(); ++i) {
        CHECK(digits.labels[i] == i);
        for (const float pixel : digits.image(i)) CHECK(pixel == static_cast<float>(i) * 3.0f / 16.0f);
    }

    SECTION("the last line may lack its end, and lines may end with \\r\\n") {
        std::string windows = text.substr(0, text.size() - 1);
        for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) {
            windows.replace(at, 1, "\r\n");
        }
        const Digits same = parse_digits(windows, "d.csv");
        CHECK(same.pixels == digits.pixels);
        CHECK(same.labels == digits.labels);
    }
}

TEST_CASE("a malformed line is named with what is wrong in it", "[digits]") {
    struct Row {
        std::string third_line;
        std::string message;
    };
    const std::string good = line_of("3", "7");
    const std::vector<Row> rows = {
        {"", "d.csv:3: the line is empty"},
        {"5", "d.csv:3: 1 value, must be 65 (64 pixels and the digit)"},
        {good.substr(2), "d.csv:3: 64 values, must be 65 (64 pixels and the digit)"},
        {good + ",1", "d.csv:3: 66 values, must be 65 (64 pixels and the digit)"},
        {good + ",", "d.csv:3: 66 values, must be 65 (64 pixels and the digit)"},
        {"17" + good.substr(1), "d.csv:3: column 1: '17' is not a pixel, 0 to 16"},
        {"-1" + good.substr(1), "d.csv:3: column 1: '-1' is not a pixel, 0 to 16"},
        {"3.0" + good.substr(1), "d.csv:3: column 1: '3.0' is not a pixel, 0 to 16"},
        {" 3" + good.substr(1), "d.csv:3: column 1: ' 3' is not a pixel, 0 to 16"},
        {"3,," + good.substr(4), "d.csv:3: column 2: '' is not a pixel, 0 to 16"},
        {"99999999999999999999" + good.substr(1),
         "d.csv:3: column 1: '99999999999999999999' is not a pixel, 0 to 16"},
        {"abcdefghijklmnopqrstuvwxyz" + good.substr(1),
         "d.csv:3: column 1: 'abcdefghijklmnopqrst…' is not a pixel, 0 to 16"},
        {std::string("\x01\xff", 2) + good.substr(1), "d.csv:3: column 1: '?\?' is not a pixel, 0 to 16"},
        {line_of("3", "10"), "d.csv:3: column 65: '10' is not a digit, 0 to 9"},
        {line_of("3", "x"), "d.csv:3: column 65: 'x' is not a digit, 0 to 9"},
        {line_of("3", ""), "d.csv:3: column 65: '' is not a digit, 0 to 9"},
        {good + "\r\r", "d.csv:3: column 65: '7?' is not a digit, 0 to 9"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.third_line);
        CHECK(input_error_message([&] { parse_digits(text_with_third_line(row.third_line), "d.csv"); }) ==
              row.message);
    }
    CHECK(parse_digits(text_with_third_line(good), "d.csv").size() == 6);
}

TEST_CASE("too few images are refused", "[digits]") {
    const std::string line = line_of("1", "2") + "\n";
    CHECK(input_error_message([] { parse_digits("", "d.csv"); }) ==
          "d.csv: holds 0 images, must be at least 5");
    CHECK(input_error_message([&] { parse_digits(line + line + line + line, "d.csv"); }) ==
          "d.csv: holds 4 images, must be at least 5");
    CHECK(parse_digits(line + line + line + line + line, "d.csv").size() == kTestEvery);
}

TEST_CASE("a file that cannot be read is named", "[digits]") {
    CHECK(input_error_message([] { read_file("/nonexistent/digits.csv"); }) ==
          "cannot read '/nonexistent/digits.csv': No such file or directory");
    CHECK(input_error_message([] { read_file("/"); }) == "cannot read '/': Invalid argument");
    CHECK(input_error_message([] { read_file("/dev/zero"); }) == "cannot read '/dev/zero': Invalid argument");
}

TEST_CASE("every fifth image is kept for testing", "[digits]") {
    std::string text;
    for (int i = 0; i < 12; ++i) text += line_of(std::to_string(i), std::to_string(i % 10)) + "\n";
    const DigitsSplit split = split_digits(parse_digits(text, "d.csv"));
    CHECK(split.test.labels == std::vector<std::uint8_t>{4, 9});
    CHECK(split.train.labels == std::vector<std::uint8_t>{0, 1, 2, 3, 5, 6, 7, 8, 0, 1});
    REQUIRE(split.test.pixels.size() == 2 * kImagePixels);
    CHECK(split.test.image(1).front() == 9.0f / 16.0f);
    CHECK(split.train.image(9).back() == 11.0f / 16.0f);
}

TEST_CASE("the real file holds the digits its origin states", "[digits]") {
    const Digits digits = parse_digits(read_file(DDPRUN_DIGITS_CSV), "digits.csv");
    CHECK(digits.size() == 1797);
    std::vector<int> counts(kDigitClasses);
    for (const std::uint8_t label : digits.labels) ++counts[label];
    CHECK(counts == std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
}

}  // namespace
}  // namespace ddprun
