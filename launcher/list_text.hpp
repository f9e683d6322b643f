// Lists as people write them: with blanks around their entries. Pure.
#pragma once

#include <string_view>

namespace ddprun::inline launch {

// The text without the blanks and tabs around it.
inline std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t";
    const auto first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace ddprun::inline launch
