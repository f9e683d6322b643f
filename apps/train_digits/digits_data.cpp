#include "apps/train_digits/digits_data.hpp"

#include <charconv>
#include <optional>

#include "apps/train_digits/files.hpp"
#include "apps/train_digits/input_error.hpp"

namespace ddprun {

namespace {

constexpr std::size_t kColumns = kImagePixels + 1;
constexpr std::size_t kQuotedCharacters = 20;

// What the file holds, made fit to stand in one line of a message.
std::string quoted(std::string_view field) {
    std::string text = "'";
    for (const char c : field.substr(0, kQuotedCharacters)) text += c >= ' ' && c <= '~' ? c : '?';
    return text + (field.size() > kQuotedCharacters ? "…'" : "'");
}

std::optional<int> whole_number(std::string_view field, int max) {
    int value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || value < 0 || value > max) return {};
    return value;
}

// Appends one image, or returns what is wrong with the line.
std::optional<std::string> parse_line(std::string_view line, Digits& digits) {
    if (line.empty()) return "the line is empty";
    std::size_t column = 0;
    std::size_t start = 0;
    while (start <= line.size()) {
        const std::size_t comma = std::min(line.find(',', start), line.size());
        const std::string_view field = line.substr(start, comma - start);
        start = comma + 1;
        ++column;
        if (column > kColumns) continue;

        const bool is_label = column == kColumns;
        const int max = is_label ? kDigitClasses - 1 : kMaxPixel;
        const std::optional<int> value = whole_number(field, max);
        if (!value) {
            return "column " + std::to_string(column) + ": " + quoted(field) + " is not a " +
                   (is_label ? "digit" : "pixel") + ", 0 to " + std::to_string(max);
        }
        if (is_label) {
            digits.labels.push_back(static_cast<std::uint8_t>(*value));
        } else {
            digits.pixels.push_back(static_cast<float>(*value) / static_cast<float>(kMaxPixel));
        }
    }
    if (column == kColumns) return {};
    return std::to_string(column) + (column == 1 ? " value" : " values") + ", must be " +
           std::to_string(kColumns) + " (" + std::to_string(kImagePixels) + " pixels and the digit)";
}

}  // namespace

Digits parse_digits(std::string_view text, const std::string& name) {
    Digits digits;
    std::size_t line_number = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        ++line_number;
        if (const std::optional<std::string> wrong = parse_line(line, digits)) {
            throw InputError(name + ":" + std::to_string(line_number) + ": " + *wrong);
        }
    }
    if (digits.size() < kTestEvery) {
        throw InputError(name + ": holds " + std::to_string(digits.size()) + " images, must be at least " +
                         std::to_string(kTestEvery));
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

}  // namespace ddprun
