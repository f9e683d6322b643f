#include "launcher/plan/gpu_driver.hpp"

#include <algorithm>

#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {

std::optional<std::string> parse_driver_version(std::string_view text) {
    const auto begin = text.find("NVRM version:");
    if (begin == std::string_view::npos) return std::nullopt;
    std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    // The first word of digits and dots; "x86_64" before it is none.
    while (!line.empty()) {
        const std::string_view word = line.substr(0, line.find(' '));
        const bool digits = word.find_first_not_of("0123456789.") == std::string_view::npos;
        if (digits && word.find('.') != std::string_view::npos) return std::string(word);
        line.remove_prefix(std::min(line.size(), word.size() + 1));
    }
    return std::nullopt;
}

std::optional<std::string> parse_gpu_model(std::string_view text) {
    for (const std::string_view line : lines_of(text)) {
        if (!line.starts_with("Model:")) continue;
        const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
        if (begin == std::string_view::npos) return std::nullopt;
        return std::string(line.substr(begin, line.find_last_not_of(" \t") - begin + 1));
    }
    return std::nullopt;
}

}  // namespace ddprun::inline launch
