// split_at() cuts a text that is a list into its parts; trimmed() removes the blanks around a part. Pure.
#pragma once

#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

// Returns the parts before, between and behind the separators: one more than there are separators. The parts
// are views of the text.
inline std::vector<std::string_view> split_at(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const auto end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos) return parts;
        text.remove_prefix(end + 1);
    }
}

// Returns the text without the blanks and tabs around it.
inline std::string_view trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t";
    const auto first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace base
}  // namespace ddprun
