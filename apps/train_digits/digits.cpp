#include "apps/train_digits/digits.hpp"

#include <fmt/core.h>

#include <optional>
#include <sstream>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {
namespace {

std::optional<Digit> digit_of(std::string_view line) {
    const auto fields = split_at(line, ',');
    if (fields.size() != kPixels + 1) return std::nullopt;
    Digit digit;
    for (std::size_t i = 0; i < kPixels; ++i) {
        const auto pixel = whole_number<int>(fields[i], 0, kMaxPixel);
        if (!pixel) return std::nullopt;
        digit.pixels[i] = static_cast<float>(*pixel) / static_cast<float>(kMaxPixel);
    }
    const auto label = whole_number<std::size_t>(fields.back(), 0, kClasses - 1);
    if (!label) return std::nullopt;
    digit.label = *label;
    return digit;
}

}  // namespace

DigitsSplit parse_digits(const std::string& text, const std::string& name) {
    DigitsSplit split;
    std::istringstream lines{text};
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('\r')) line.pop_back();
        ++number;
        const auto digit = digit_of(line);
        if (!digit)
            throw InputError(fmt::format("{}:{}: not {} pixels from 0 to {} and a digit, with commas between",
                                         name, number, kPixels, kMaxPixel));
        (number % kTestEvery == 0 ? split.test : split.train).push_back(*digit);
    }
    if (number >= kTestEvery) return split;
    throw InputError(fmt::format("{}: holds {} images, must be at least {}", name, number, kTestEvery));
}

}  // namespace app
}  // namespace ddprun
