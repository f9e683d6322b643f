#include "rendezvous/control/job_command.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/codec/json_codec.hpp"

namespace ddprun {
inline namespace job {

namespace {

// So much of what both have in common is shown before the difference.
constexpr std::size_t kCommonShown = 40;

constexpr std::string_view kHiddenBegin = "(digest ";

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

std::string shell_word(const std::string& word) {
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

std::uint64_t digest_of(const std::vector<std::string>& words) {
    Digest digest;
    // Each word counts with its final zero, so that no two lists of words look alike.
    for (const std::string& word : words) digest.add({word.c_str(), word.size() + 1});
    return digest.value();
}

using Words = std::vector<std::string_view>;

// Parts a text of shell_word()s.
Words words_of(std::string_view text) {
    Words words;
    bool is_quoted = false;
    for (std::size_t at = 0, begin = 0; at <= text.size(); ++at) {
        if (at < text.size() && text[at] == '\'') is_quoted = !is_quoted;
        if (at < text.size() && (is_quoted || text[at] != ' ')) continue;
        words.push_back(text.substr(begin, at - begin));
        begin = at + 1;
    }
    return words;
}

}  // namespace

JobCommand describe_command(const std::vector<std::string>& words, const std::vector<std::string>& program,
                            const std::vector<std::string>& shown) {
    JobCommand command;
    for (const std::string& word : shown.empty() ? words : shown) {
        if (command.text.size() <= kMaxJobCommandText)
            command.text += (command.text.empty() ? "" : " ") + shell_word(word);
    }
    command.whole = digest_of(words);
    command.digest = program.empty() ? command.whole : digest_of(program);
    command.text = cut_text(command.text, kMaxJobCommandText);
    return command;
}

std::string shown_beside(const JobCommand& command, const JobCommand& other) {
    const std::string& text = command.text;
    if (text.size() <= kMaxCommandShown) return text;
    const auto differs = std::mismatch(text.begin(), text.end(), other.text.begin(), other.text.end()).first;
    const auto common = static_cast<std::size_t>(differs - text.begin());
    const std::size_t begin = cut_text(text, common > kCommonShown ? common - kCommonShown : 0).size();
    const std::string rest = text.substr(begin);
    const std::string shown = cut_text(rest, kMaxCommandShown);
    return (begin > 0 ? "…" : "") + shown + (shown.size() < rest.size() ? "…" : "");
}

std::vector<std::string> differing_words(const std::vector<const JobCommand*>& commands) {
    std::vector<Words> all;
    for (const JobCommand* command : commands) all.push_back(words_of(command->text));
    std::vector<std::string> shown;
    for (const Words& words : all) {
        std::string& text = shown.emplace_back();
        const auto is_same = [&all, &words](std::size_t at) {
            return std::all_of(all.begin(), all.end(), [&](const Words& other) {
                return at < other.size() && other[at] == words[at];
            });
        };
        for (std::size_t at = 0; at < words.size(); ++at) {
            if (is_same(at)) continue;
            const bool has_option = at > 0 && is_same(at - 1) && words[at - 1].starts_with('-') &&
                                    words[at - 1].find('=') == std::string_view::npos;
            if (has_option && !words[at].starts_with('-')) text.append(words[at - 1]).append(" ");
            text.append(words[at]).append(" ");
        }
        if (!text.empty()) text.pop_back();
        if (text.size() > kMaxCommandShown) text = cut_text(text, kMaxCommandShown) + "…";
    }
    return shown;
}

std::string hidden_value(std::uint64_t digest) { return fmt::format("{}{:016x})", kHiddenBegin, digest); }

bool is_hidden_value(std::string_view value) { return value.starts_with(kHiddenBegin); }

}  // namespace job
}  // namespace ddprun
