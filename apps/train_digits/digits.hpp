// A Digit is a handwritten digit: an image of 8 x 8 pixels and what it shows. apps/data/README.md has the
// file's form.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun {
inline namespace app {

inline constexpr std::size_t kPixels = 64;
inline constexpr int kMaxPixel = 16;
inline constexpr std::size_t kClasses = 10;
inline constexpr std::size_t kTestEvery = 5;
inline constexpr std::size_t kTotals = 3;  // what a training adds up: loss (in nats), right answers, images

// InputError: the user's file or flag is wrong. The text is one line that names the flag, and the file (and
// line) or the value.
struct InputError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Digit {
    float pixels[kPixels] = {};  // scaled to 0 … 1; a GPU reads this struct, too
    std::size_t label = 0;       // 0 … kClasses - 1
};
using Digits = std::vector<Digit>;

struct DigitsSplit {
    Digits train;
    Digits test;  // images 5, 10, … of the file, counted from 1
};

// parse_digits throws InputError "<name>:<line>: …" at the first malformed line, and "<name>: …" if there are
// fewer than kTestEvery images. Lines end with \n or \r\n; the last may lack it.
DigitsSplit parse_digits(const std::string& text, const std::string& name);

}  // namespace app
}  // namespace ddprun
