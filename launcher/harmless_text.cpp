#include "launcher/harmless_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "launcher/secret_text.hpp"
#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kCut = "...";
constexpr std::size_t kLongestSecret = 4096;
constexpr std::string_view kTab = "    ";
constexpr char kEscape = '\x1b';
constexpr char kBell = '\a';

struct Character {
    char32_t code = 0;
    std::size_t size = 1;
};

bool in_range(unsigned char byte, int low, int high) { return byte >= low && byte <= high; }

// Returns the character at the front by the table of well-formed sequences of the Unicode standard (3-7).
std::optional<Character> first_character(std::string_view text) {
    const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return Character{lead, 1};
    std::size_t size = 0;
    int low = 0x80, high = 0xBF;  // of the second byte
    if (in_range(lead, 0xC2, 0xDF)) size = 2;
    if (in_range(lead, 0xE0, 0xEF)) size = 3;
    if (in_range(lead, 0xF0, 0xF4)) size = 4;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (size == 0 || text.size() < size || !in_range(byte(1), low, high)) return std::nullopt;
    char32_t code = lead & (0x7F >> size);
    for (std::size_t i = 1; i < size; ++i) {
        if (!in_range(byte(i), 0x80, 0xBF)) return std::nullopt;
        code = code << 6 | (byte(i) & 0x3F);
    }
    return Character{code, size};
}

bool is_control(char32_t code) {
    return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C || code == 0x200E ||
           code == 0x200F || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
           code == 0xFEFF;
}

// How long the escape sequence at the front is (ECMA-48: CSI, and the strings OSC, DCS, SOS, PM, APC); 0 if
// it has no end.
std::size_t escape_sequence(std::string_view text) {
    if (text.size() < 2) return 0;
    const std::string_view strings = "]PX^_";
    if (text[1] == '[') {
        const auto last = std::find_if(text.begin() + 2, text.end(), [](char c) {
            return in_range(static_cast<unsigned char>(c), 0x40, 0x7E);
        });
        const bool whole = last != text.end() && std::all_of(text.begin() + 2, last, [](char c) {
                               return in_range(static_cast<unsigned char>(c), 0x20, 0x3F);
                           });
        return whole ? static_cast<std::size_t>(last - text.begin()) + 1 : 0;
    }
    if (strings.find(text[1]) == std::string_view::npos) return 0;
    for (std::size_t i = 2; i < text.size(); ++i) {
        if (text[i] == kBell) return i + 1;
        if (text[i] == kEscape) return i + 1 < text.size() && text[i + 1] == '\\' ? i + 2 : 0;
    }
    return 0;
}

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string_view head_of(std::string_view text, std::size_t size) {
    while (size > 0 && continues(text[size])) --size;
    return text.substr(0, size);
}

std::string_view tail_of(std::string_view text, std::size_t size) {
    std::size_t begin = text.size() - size;
    while (begin < text.size() && continues(text[begin])) ++begin;
    return text.substr(begin);
}

}  // namespace

std::string_view last_state(std::string_view line) {
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const auto overwritten = line.rfind('\r');
    return overwritten == std::string_view::npos ? line : line.substr(overwritten + 1);
}

std::string harmless_line(std::string_view line, std::size_t limit) {
    std::string shown;
    // A line may be of any length, and no more of it than this can matter: a password's end is not far.
    while (!line.empty() && (shown.size() <= limit || shown.size() - limit <= kLongestSecret)) {
        if (line[0] == kEscape) {
            if (const std::size_t size = escape_sequence(line); size != 0) {
                line.remove_prefix(size);
                continue;
            }
        }
        const auto character = first_character(line);
        const std::size_t size = character ? character->size : 1;
        if (!character) {
            shown += kReplacement;
        } else if (character->code == '\t') {
            shown += kTab;
        } else if (is_control(character->code)) {
            shown += '?';
        } else {
            shown += line.substr(0, size);
        }
        line.remove_prefix(size);
    }
    shown = masked_text(shown);
    if (shown.size() <= limit) return shown;
    return std::string(head_of(shown, limit - std::min(limit, kCut.size()))) + std::string(kCut);
}

std::string harmless_output_line(std::string_view line, std::size_t limit) {
    return harmless_line(last_state(line), limit);
}

std::string valid_utf8(std::string_view text) {
    std::string valid;
    valid.reserve(text.size());
    while (!text.empty()) {
        const auto character = first_character(text);
        const std::size_t size = character ? character->size : 1;
        valid += character ? text.substr(0, size) : kReplacement;
        text.remove_prefix(size);
    }
    return valid;
}

std::string cut_middle(std::string_view text, std::size_t limit) {
    check(limit >= 64, "a limit that leaves no room for the note");
    const std::string valid = valid_utf8(masked_text(text));
    if (valid.size() <= limit) return valid;
    const auto note = [](std::size_t bytes) { return fmt::format("\n... {} bytes left out ...\n", bytes); };
    const std::size_t room = limit - note(valid.size()).size();
    const auto head = head_of(valid, room / 3);
    const auto tail = tail_of(valid, room - room / 3);
    return std::string(head) + note(valid.size() - head.size() - tail.size()) + std::string(tail);
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const auto end = text.find('\n');
        lines.push_back(text.substr(0, end));
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    return lines;
}

}  // namespace launch
}  // namespace ddprun
