#include "apps/train_digits/digits_data.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "apps/train_digits/files.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline app {

namespace {

constexpr std::size_t kColumns = kImagePixels + 1;
constexpr std::size_t kQuotedCharacters = 20;

// What the file holds, made fit to stand in one line of a message.
std::string quoted(std::string_view field) {
    std::string text = "'";
    for (const char c : field.substr(0, kQuotedCharacters)) text += c >= ' ' && c <= '~' ? c : '?';
    return text + (field.size() > kQuotedCharacters ? "…'" : "'");
}

// Appends one image, or returns what is wrong with the line.
std::optional<std::string> parse_line(std::string_view line, Digits& digits) {
    if (line.empty()) return "the line is empty";
    const auto fields = split_at(line, ',');
    for (std::size_t i = 0; i < std::min(fields.size(), kColumns); ++i) {
        const bool is_label = i + 1 == kColumns;
        const int max = is_label ? kDigitClasses - 1 : kMaxPixel;
        const auto value = whole_number<int>(fields[i], 0, max);
        if (!value) {
            return fmt::format("column {}: {} is not a {}, 0 to {}", i + 1, quoted(fields[i]),
                               is_label ? "digit" : "pixel", max);
        }
        if (is_label) {
            digits.labels.push_back(static_cast<std::uint8_t>(*value));
        } else {
            digits.pixels.push_back(static_cast<float>(*value) / static_cast<float>(kMaxPixel));
        }
    }
    if (fields.size() == kColumns) return {};
    return fmt::format("{} value{}, must be {} ({} pixels and the digit)", fields.size(),
                       fields.size() == 1 ? "" : "s", kColumns, kImagePixels);
}

}  // namespace

Digits parse_digits(std::string_view text, const std::string& name) {
    Digits digits;
    std::istringstream lines{std::string(text)};
    std::size_t line_number = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('\r')) line.pop_back();
        ++line_number;
        if (const auto wrong = parse_line(line, digits))
            throw InputError(fmt::format("{}:{}: {}", name, line_number, *wrong));
    }
    if (digits.size() < kTestEvery) {
        throw InputError(
            fmt::format("{}: holds {} images, must be at least {}", name, digits.size(), kTestEvery));
    }
    return digits;
}

Digits read_digits(const std::string& path) { return parse_digits(read_file(path, kMaxDataFileBytes), path); }

DigitsSplit split_digits(const Digits& all) {
    DigitsSplit split;
    for (std::size_t index = 0; index < all.size(); ++index) {
        Digits& part = index % kTestEvery == kTestEvery - 1 ? split.test : split.train;
        const std::span<const float> image = all.image(index);
        part.pixels.insert(part.pixels.end(), image.begin(), image.end());
        part.labels.push_back(all.labels[index]);
    }
    return split;
}

}  // namespace ddprun::inline app
