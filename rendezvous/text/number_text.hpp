// NumberSpan and the functions here read and write numbers as text: sets as the kernel and people write them
// (0-3,8), sizes, durations, and the decimal text that stores keep. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {
inline namespace base {

// NumberSpan is a run of neighbouring numbers, both ends included.
struct NumberSpan {
    int first = 0;
    int last = 0;

    bool operator==(const NumberSpan&) const = default;
};

// Blanks says where a grammar allows blanks.
enum class Blanks { refused, around_entries, around_numbers };

// Returns what stands on the two sides of the first dash; the whole text twice where there is no dash.
std::pair<std::string_view, std::string_view> ends_of_range(std::string_view text);

// Reads `8` or `8-15`, numbers from `lowest` (at least 0) to `highest`. The second number may be below the
// first; the caller refuses that in its own words.
std::optional<NumberSpan> parse_span(std::string_view text, int lowest, int highest,
                                     Blanks blanks = Blanks::refused);

// WrongSpan is the entry of a set that is no span, or a range that runs backwards.
struct WrongSpan {
    std::string_view text;
    bool is_backward = false;
};

// Reads `0-3,8`, one entry at least. The spans stand in the order of the text and may overlap.
std::variant<std::vector<NumberSpan>, WrongSpan> parse_number_set(std::string_view text, int lowest,
                                                                  int highest,
                                                                  Blanks blanks = Blanks::refused);

// Joins neighbouring numbers into spans that ascend and do not touch; the numbers may come in any order and
// more than once.
template <class Span = NumberSpan>
std::vector<Span> spans_of(std::vector<decltype(Span::first)> numbers) {
    std::sort(numbers.begin(), numbers.end());
    std::vector<Span> spans;
    for (const auto number : numbers) {
        if (spans.empty() || number > spans.back().last + 1) spans.push_back({number, number});
        spans.back().last = number;
    }
    return spans;
}

// Writes "0-3,8".
template <class Span>
std::string number_set_text(const std::vector<Span>& spans) {
    std::string text;
    for (const Span& span : spans) {
        text += (text.empty() ? "" : ",") + std::to_string(span.first);
        if (span.last != span.first) text += "-" + std::to_string(span.last);
    }
    return text;
}

// Writes "1.5 GiB", "512 bytes".
std::string size_text(std::uint64_t bytes);

// Reads "5s", "250ms", "2m", "1h", "3d" or a bare number of seconds. Returns nothing for another form, or for
// more than 115 days.
std::optional<std::chrono::milliseconds> parse_duration(const std::string& text);

// Reads a number as PyTorch's server does: leading blanks and trailing text are passed over (" 12abc" is 12).
// Returns nothing if there is no number or it does not fit.
std::optional<std::int64_t> parse_number(std::string_view text);

// Adds with wrap-around, as the machine's integers do: a peer must not be able to cause undefined behaviour.
std::int64_t wrapping_sum(std::int64_t a, std::int64_t b);

}  // namespace base
}  // namespace ddprun
