#include "rendezvous/text/number_text.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace base {

std::pair<std::string_view, std::string_view> ends_of_range(std::string_view text) {
    const auto dash = text.find('-');
    if (dash == std::string_view::npos) return {text, text};
    return {text.substr(0, dash), text.substr(dash + 1)};
}

std::optional<NumberSpan> parse_span(std::string_view text, int lowest, int highest, Blanks blanks) {
    auto [low, high] = ends_of_range(text);
    if (blanks == Blanks::around_numbers) low = trimmed(low), high = trimmed(high);
    const auto first = whole_number<int>(low, lowest, highest);
    const auto last = whole_number<int>(high, lowest, highest);
    return first && last ? std::optional(NumberSpan{*first, *last}) : std::nullopt;
}

std::variant<std::vector<NumberSpan>, WrongSpan> parse_number_set(std::string_view text, int lowest,
                                                                  int highest, Blanks blanks) {
    std::vector<NumberSpan> spans;
    for (std::string_view part : split_at(text, ',')) {
        if (blanks != Blanks::refused) part = trimmed(part);
        const auto span = parse_span(part, lowest, highest, blanks);
        if (!span || span->last < span->first) return WrongSpan{part, span.has_value()};
        spans.push_back(*span);
    }
    return spans;
}

std::string size_text(std::uint64_t bytes) {
    constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) return fmt::format("{} bytes", bytes);
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
    return fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

std::optional<std::chrono::milliseconds> parse_duration(const std::string& text) {
    double value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || !(value >= 0) || !std::isfinite(value)) return std::nullopt;
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    constexpr long kMaxDurationMs = 10'000'000'000;  // 115 days: longer is a typing error
    double factor = 0;
    if (unit == "ms") factor = 1;
    if (unit.empty() || unit == "s") factor = 1000;
    if (unit == "m") factor = 60'000;
    if (unit == "h") factor = 3'600'000;
    if (unit == "d") factor = 86'400'000;
    if (factor == 0 || value * factor > kMaxDurationMs) return std::nullopt;
    return std::chrono::milliseconds(std::llround(value * factor));
}

std::optional<std::int64_t> parse_number(std::string_view text) {
    auto first = text.find_first_not_of(" \t\n\v\f\r");
    if (first == std::string_view::npos) return std::nullopt;
    text.remove_prefix(first);
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    return value;
}

std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace base
}  // namespace ddprun
