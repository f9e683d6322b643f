// whole_number() reads integers as people and the kernel write them. Pure.
#pragma once

#include <charconv>
#include <concepts>
#include <limits>
#include <optional>
#include <string_view>

namespace ddprun {
inline namespace base {

constexpr bool is_decimal(char byte) { return byte >= '0' && byte <= '9'; }

// Returns the number from `lowest` to `highest` that the whole text is: digits of the base, after a minus if
// `lowest` is negative. Returns nothing for any other text; blanks are not skipped.
template <std::integral Number>
std::optional<Number> whole_number(std::string_view text, Number lowest = std::numeric_limits<Number>::min(),
                                   Number highest = std::numeric_limits<Number>::max(), int base = 10) {
    Number number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number, base);
    const bool signed_zero = lowest >= 0 && text.starts_with('-');
    if (error != std::errc() || stop != end || number < lowest || number > highest || signed_zero)
        return std::nullopt;
    return number;
}

}  // namespace base
}  // namespace ddprun
