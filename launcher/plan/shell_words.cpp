#include "launcher/plan/shell_words.hpp"

#include <optional>
#include <utility>

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kBetweenWords = " \t\n";
constexpr std::string_view kEscapedInQuotes = "\\\"$`\n";

bool is_in(std::string_view text, std::size_t at, std::string_view set) {
    return at < text.size() && set.find(text[at]) != std::string_view::npos;
}

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";

}  // namespace

std::variant<std::vector<std::string>, std::string> split_shell_words(std::string_view text) {
    std::vector<std::string> words;
    std::optional<std::string> word;  // nothing between words, while "" is an empty one
    char quote = '\0';                // the one that is open
    const auto add = [&word](std::string_view more) { (word ? *word : word.emplace()) += more; };
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        const bool escapes =
            c == '\\' && (quote == '\0' || (quote == '"' && is_in(text, at + 1, kEscapedInQuotes)));
        if (escapes) {
            if (++at == text.size()) return "nothing follows the backslash at its end";
            if (text[at] != '\n') add(text.substr(at, 1));
        } else if (quote == '\0' && is_in(text, at, kBetweenWords)) {
            if (word) words.push_back(*std::exchange(word, std::nullopt));
        } else if (quote != '\0' && c == quote) {
            quote = '\0';
        } else if (quote == '\0' && (c == '\'' || c == '"')) {
            quote = c;
            add("");
        } else {
            add(text.substr(at, 1));
        }
    }
    if (quote != '\0') return std::string("the quote ") + quote + " is not closed";
    if (word) words.push_back(std::move(*word));
    return words;
}

std::string join_shell_words(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += ' ';
        if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
            text += word;
            continue;
        }
        text += '\'';
        for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
        text += '\'';
    }
    return text;
}

}  // namespace ddprun::inline launch
