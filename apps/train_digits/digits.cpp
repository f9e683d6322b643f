#include "apps/train_digits/digits.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline app {
namespace {

constexpr std::size_t kMaxFileBytes = 64 * 1024 * 1024;
constexpr std::size_t kColumns = kImagePixels + 1;
constexpr std::size_t kQuotedCharacters = 20;

// Makes a part of the file fit to stand in one line of a message.
std::string quoted(std::string_view field) {
    std::string text = "'";
    for (const char c : field.substr(0, kQuotedCharacters)) text += c >= ' ' && c <= '~' ? c : '?';
    return text + (field.size() > kQuotedCharacters ? "…'" : "'");
}

// Appends one image, or throws what is wrong with the line.
void parse_line(std::string_view line, Digits& digits) {
    if (line.empty()) throw InputError("the line is empty");
    const auto fields = split_at(line, ',');
    for (std::size_t i = 0; i < std::min(fields.size(), kColumns); ++i) {
        const bool is_label = i + 1 == kColumns;
        const int max = is_label ? kDigitClasses - 1 : kMaxPixel;
        const auto value = whole_number<int>(fields[i], 0, max);
        if (!value)
            throw InputError(fmt::format("column {}: {} is not a {}, 0 to {}", i + 1, quoted(fields[i]),
                                         is_label ? "digit" : "pixel", max));
        if (is_label) {
            digits.labels.push_back(static_cast<std::uint8_t>(*value));
        } else {
            digits.pixels.push_back(static_cast<float>(*value) / static_cast<float>(kMaxPixel));
        }
    }
    if (fields.size() != kColumns)
        throw InputError(fmt::format("{} value{}, must be {} ({} pixels and the digit)", fields.size(),
                                     fields.size() == 1 ? "" : "s", kColumns, kImagePixels));
}

}  // namespace

std::string read_file(const std::string& path) {
    auto bytes = read_small_file(path, kMaxFileBytes);
    if (!bytes) throw InputError(fmt::format("cannot read '{}': {}", path, bytes.error().message()));
    return *std::move(bytes);
}

Digits parse_digits(std::string_view text, const std::string& name) {
    Digits digits;
    std::istringstream lines{std::string(text)};
    std::size_t number = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('\r')) line.pop_back();
        ++number;
        try {
            parse_line(line, digits);
        } catch (const InputError& error) {
            throw InputError(fmt::format("{}:{}: {}", name, number, error.what()));
        }
    }
    if (digits.size() >= kTestEvery) return digits;
    throw InputError(
        fmt::format("{}: holds {} images, must be at least {}", name, digits.size(), kTestEvery));
}

DigitsSplit split_digits(const Digits& all) {
    DigitsSplit split;
    for (std::size_t index = 0; index < all.size(); ++index) {
        Digits& part = index % kTestEvery == kTestEvery - 1 ? split.test : split.train;
        const Image image = all.image(index);
        part.pixels.insert(part.pixels.end(), image.begin(), image.end());
        part.labels.push_back(all.labels[index]);
    }
    return split;
}

std::size_t EpochImages::images_in(std::size_t step) const {
    return std::min(batch_size_, train_.size() - step * batch_size_);
}

void EpochImages::begin_epoch(int epoch) {
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    indices_ = sampler_.indices();
}

void EpochImages::visit(std::size_t step, const std::function<void(Image, std::uint8_t)>& visit) const {
    // Place p of the epoch's order is image p / world_size of rank p % world_size.
    const std::size_t begin = step * batch_size_;
    for (std::size_t place = begin; place < begin + images_in(step); ++place) {
        if (place % world_size_ != rank_) continue;
        const std::size_t index = indices_[place / world_size_];
        visit(train_.image(index), train_.labels[index]);
    }
}

}  // namespace ddprun::inline app
