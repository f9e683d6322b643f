#include "launcher/plan/shell_text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "launcher/plan/rank_command.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// In a text, what is no part of a word.
constexpr std::string_view kTextSigns = "|&;<>\n";
// It stands in front of a sign, where signs have been told from quoted ones.
constexpr char kSignMark = '\x01';

// Puts the sign at `at`, of one or several letters, with a mark between the words, and with the numbers of a
// redirection: 2>&1. Returns the place behind it.
std::size_t mark_sign(std::string_view text, std::size_t at, std::string& marked) {
    const auto end = std::min(text.find_first_not_of(kTextSigns, at), text.size());
    std::string sign(text.substr(at, end - at));
    std::replace(sign.begin(), sign.end(), '\n', ';');
    auto behind = end;
    if (sign.find_first_of("<>") != sign.npos) {
        const auto number = marked.find_last_not_of("0123456789") + 1;
        if (number == 0 || marked[number - 1] == ' ') {
            sign.insert(0, marked, number);
            marked.resize(number);
        }
        if (sign.ends_with('&')) behind = std::min(text.find_first_not_of("0123456789-", end), text.size());
    }
    marked += std::string(" ") + kSignMark + sign;
    marked += std::string(text.substr(end, behind - end)) + ' ';
    return behind;
}

// Parts a text into words and marked signs; nothing where it has more than simple commands: substitutions,
// groups, or a quote that is not closed.
std::optional<std::vector<std::string>> words_and_signs(std::string_view text) {
    std::string marked;
    char quote = '\0';
    for (std::size_t at = 0; at < text.size();) {
        const char c = text[at];
        const char next = at + 1 < text.size() ? text[at + 1] : '\0';
        const bool is_plain = quote == '\0';
        const bool substitutes = quote != '\'' && (c == '`' || (c == '$' && next == '('));
        if (substitutes || (is_plain && (c == '(' || c == ')'))) return std::nullopt;
        if (is_plain && kTextSigns.find(c) != kTextSigns.npos) {
            at = mark_sign(text, at, marked);
            continue;
        }
        if (is_plain && c == '#' && (marked.empty() || marked.back() == ' ')) {
            at = std::min(text.find('\n', at), text.size());
            continue;
        }
        const std::size_t length = c == '\\' && quote != '\'' ? 2 : 1;
        if (is_plain ? c == '\'' || c == '"' : c == quote) quote = is_plain ? c : '\0';
        marked += text.substr(at, length);
        at += length;
    }
    auto split = split_shell_words(marked);
    auto* words = std::get_if<std::vector<std::string>>(&split);
    return words == nullptr ? std::nullopt : std::optional(std::move(*words));
}

// Takes a redirection into account; returns whether the next word is its file.
bool take_redirection(TextCommand& command, std::string_view sign) {
    const auto in = sign.find('<');
    if (in != sign.npos && (in == 0 || sign.substr(0, in) == "0")) command.reads_input = false;
    return sign.back() != '-' && (sign.back() < '0' || sign.back() > '9');
}

// Returns the command that begins behind a pipe or an end.
TextCommand next_command(TextCommand& before, std::string_view sign) {
    const bool is_pipe = sign.starts_with('|') && !sign.starts_with("||");
    // A shell does not wait for that, and gives it /dev/null.
    if (sign.starts_with('&') && !sign.starts_with("&&")) before.reads_input = false;
    const std::vector<std::string> words(before.words.begin() + 1, before.words.end());
    return {.reads_input = !is_pipe || (before.reads_input && is_cat(words))};
}

}  // namespace

bool is_cat(const std::vector<std::string>& words) {
    return words == std::vector<std::string>{"cat"} || words == std::vector<std::string>{"cat", "-"};
}

bool is_keyword(std::string_view word) {
    constexpr std::string_view kKeywords[] = {"if", "then", "elif", "else",   "while",    "until", "do",
                                              "{",  "!",    "case", "select", "function", "for"};
    return std::find(std::begin(kKeywords), std::end(kKeywords), word) != std::end(kKeywords);
}

std::optional<std::vector<TextCommand>> commands_of(std::string_view text) {
    const auto parts = words_and_signs(text);
    if (!parts) return std::nullopt;
    std::vector<TextCommand> commands(1);
    bool is_file = false;
    for (const std::string& part : *parts) {
        TextCommand& command = commands.back();
        const std::string_view sign = part.starts_with(kSignMark) ? std::string_view(part).substr(1) : "";
        if (sign.empty()) {
            if (std::exchange(is_file, false) || part == "exec") continue;
            if (command.words.size() == 1 && is_keyword(part)) return std::nullopt;
            command.words.push_back(part);
        } else if (sign.find_first_of("<>") != sign.npos) {
            if (sign.find("<<") != sign.npos && sign.find("<<<") == sign.npos) return std::nullopt;
            is_file = take_redirection(command, sign);
        } else {
            commands.push_back(next_command(command, sign));
        }
    }
    return commands;
}

}  // namespace launch
}  // namespace ddprun
