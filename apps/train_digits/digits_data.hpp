// The handwritten digits: images of 8 x 8 pixels and what they show. The file's form is in
// apps/data/README.md.
//
// Parsing and splitting are pure; only read_digits touches a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline app {

inline constexpr int kImageSide = 8;
inline constexpr std::size_t kImagePixels = kImageSide * kImageSide;
inline constexpr int kMaxPixel = 16;
inline constexpr int kDigitClasses = 10;
inline constexpr std::size_t kTestEvery = 5;                        // every 5th image is kept for testing
inline constexpr std::size_t kMaxDataFileBytes = 64 * 1024 * 1024;  // about 400,000 images

struct Digits {
    std::vector<float> pixels;         // kImagePixels for each image, scaled to 0 … 1
    std::vector<std::uint8_t> labels;  // 0 … kDigitClasses - 1

    std::size_t size() const { return labels.size(); }
    std::span<const float, kImagePixels> image(std::size_t index) const {
        return std::span(pixels).subspan(index * kImagePixels).first<kImagePixels>();
    }
};

// Throws InputError "<name>:<line>: <what is wrong>" at the first line that is not of the stated form, and
// "<name>: …" if there are fewer than kTestEvery images. Lines end with \n or \r\n; the last may lack it.
Digits parse_digits(std::string_view text, const std::string& name);

// Throws InputError that names the path if it cannot be read, is too large or malformed.
Digits read_digits(const std::string& path);

struct DigitsSplit {
    Digits train;
    Digits test;  // images 5, 10, … of the file, counted from 1
};
DigitsSplit split_digits(const Digits& all);

}  // namespace ddprun::inline app
