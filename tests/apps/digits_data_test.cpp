#include "apps/train_digits/digits.hpp"

#include <string>
#include <vector>

#include "rendezvous/system/small_file.hpp"
#include "tests/apps/input_error_message.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// One line without its end: 64 times `pixel`, then `label`.
std::string line_of(const std::string& pixel, const std::string& label) {
    std::string line;
    for (std::size_t i = 0; i < kPixels; ++i) line += pixel + ",";
    return line + label;
}

// Six good lines, the third of them replaced.
std::string text_with_third_line(const std::string& third) {
    const std::string good = line_of("3", "7") + "\n";
    return good + good + third + "\n" + good + good + good;
}

TEST_CASE("digits are read with pixels from 0 to 1 and their labels, every fifth for testing", "[digits]") {
    std::string text;
    for (int i = 0; i < 12; ++i) text += line_of(std::to_string(i), std::to_string(i % 10)) + "\n";
    const auto labels = [](const Digits& digits) {
        std::vector<std::size_t> all;
        for (const Digit& digit : digits) all.push_back(digit.label);
        return all;
    };
    const DigitsSplit split = parse_digits(text, "d.csv");
    CHECK(labels(split.test) == std::vector<std::size_t>{4, 9});
    CHECK(labels(split.train) == std::vector<std::size_t>{0, 1, 2, 3, 5, 6, 7, 8, 0, 1});
    for (const float pixel : split.test[1].pixels) CHECK(pixel == 9.0f / 16.0f);
    for (const float pixel : split.train[9].pixels) CHECK(pixel == 11.0f / 16.0f);

    SECTION("the last line may lack its end, and lines may end with \\r\\n") {
        std::string windows = text.substr(0, text.size() - 1);
        for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2) {
            windows.replace(at, 1, "\r\n");
        }
        const DigitsSplit same = parse_digits(windows, "d.csv");
        CHECK(labels(same.train) == labels(split.train));
        CHECK(labels(same.test) == labels(split.test));
    }
}

TEST_CASE("a malformed line is named", "[digits]") {
    const std::string good = line_of("3", "7");
    const std::vector<std::string> wrong = {"",
                                            "5",
                                            good.substr(2),
                                            good + ",1",
                                            good + ",",
                                            "17" + good.substr(1),
                                            "-1" + good.substr(1),
                                            "3.0" + good.substr(1),
                                            " 3" + good.substr(1),
                                            "3,," + good.substr(4),
                                            "99999999999999999999" + good.substr(1),
                                            std::string("\x01\xff", 2) + good.substr(1),
                                            line_of("3", "10"),
                                            line_of("3", "x"),
                                            line_of("3", ""),
                                            good + "\r\r"};
    for (const std::string& line : wrong) {
        CAPTURE(line);
        CHECK(input_error_message([&] { parse_digits(text_with_third_line(line), "d.csv"); }) ==
              "d.csv:3: not 64 pixels from 0 to 16 and a digit, with commas between");
    }
    CHECK(parse_digits(text_with_third_line(good), "d.csv").train.size() == 5);
}

TEST_CASE("too few images are refused", "[digits]") {
    const std::string line = line_of("1", "2") + "\n";
    CHECK(input_error_message([] { parse_digits("", "d.csv"); }) ==
          "d.csv: holds 0 images, must be at least 5");
    CHECK(input_error_message([&] { parse_digits(line + line + line + line, "d.csv"); }) ==
          "d.csv: holds 4 images, must be at least 5");
    CHECK(parse_digits(line + line + line + line + line, "d.csv").test.size() == 1);
}

TEST_CASE("the real file holds the digits its origin states", "[digits]") {
    const DigitsSplit split = parse_digits(read_small_file(DDPRUN_DIGITS_CSV, 1 << 20).value(), "digits.csv");
    CHECK(split.train.size() + split.test.size() == 1797);
    std::vector<int> counts(kClasses);
    for (const Digit& digit : split.train) ++counts[digit.label];
    for (const Digit& digit : split.test) ++counts[digit.label];
    CHECK(counts == std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
}

}  // namespace
}  // namespace ddprun
