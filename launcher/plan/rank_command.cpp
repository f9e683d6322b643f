#include "launcher/plan/rank_command.hpp"

#include <fmt/core.h>

#include <optional>
#include <utility>

namespace ddprun {
inline namespace launch {
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

namespace {

constexpr std::string_view kLocal = "local=";

}  // namespace

std::variant<RankCommand, std::string> parse_rank_command(std::string_view flag, std::string_view value,
                                                          std::string_view example) {
    const auto refusal = [&](std::string_view why) { return fmt::format("{} '{}': {}", flag, value, why); };
    const auto colon = value.find(':');
    if (colon == std::string_view::npos)
        return refusal(fmt::format("RANKS:COMMAND is expected, for example {}", example));
    RankCommand command;
    std::string_view ranks = value.substr(0, colon);
    command.local = ranks.starts_with(kLocal);
    if (command.local) ranks.remove_prefix(kLocal.size());
    auto set = parse_rank_set(ranks);
    if (const auto* wrong = std::get_if<std::string>(&set)) return refusal(*wrong);
    command.ranks = std::get<RankSet>(std::move(set));
    auto words = split_shell_words(value.substr(colon + 1));
    if (const auto* wrong = std::get_if<std::string>(&words)) return refusal(*wrong);
    command.words = std::get<std::vector<std::string>>(std::move(words));
    if (command.words.empty() || command.words.front().empty())
        return refusal("no command follows the ranks");
    return command;
}

namespace {

std::string expanded(const std::string& word, const WrapPlace& place) {
    std::string text;
    for (std::size_t i = 0; i < word.size(); ++i) {
        const char macro = word[i] == '%' && i + 1 < word.size() ? word[i + 1] : '\0';
        switch (macro) {
            case 'r': text += std::to_string(place.rank); break;
            case 'l': text += std::to_string(place.local_rank); break;
            case 'h': text += place.host; break;
            case '%': text += '%'; break;
            default: text += word[i]; continue;
        }
        ++i;
    }
    return text;
}

}  // namespace

std::variant<Wrap, std::string> parse_wrap(std::string_view value) {
    return parse_rank_command("--wrap", value, "'0:gdb --args' or '*:nsys profile -o r%r'");
}

std::vector<std::string> wrapped_argv(const std::vector<Wrap>& wraps, std::vector<std::string> argv,
                                      const WrapPlace& place) {
    std::vector<std::string> front;
    for (const Wrap& wrap : wraps) {
        if (!wrap.names(place.rank, place.local_rank)) continue;
        for (const std::string& word : wrap.words) front.push_back(expanded(word, place));
    }
    argv.insert(argv.begin(), front.begin(), front.end());
    return argv;
}

}  // namespace launch
}  // namespace ddprun
