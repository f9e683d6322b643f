#include "rendezvous/control/job_command.hpp"

#include <algorithm>

namespace ddprun::inline job {

namespace {

// So much of what both have in common is shown before the difference.
constexpr std::size_t kCommonShown = 40;

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";

std::string shell_word(const std::string& word) {
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
    std::string text = "'";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Not in the middle of a UTF-8 character.
std::size_t before_character(const std::string& text, std::size_t at) {
    while (at > 0 && at < text.size() && continues_character(text[at])) --at;
    return at;
}

}  // namespace

JobCommand describe_command(const std::vector<std::string>& words) {
    JobCommand command;
    Digest digest;
    for (const std::string& word : words) {
        // Each word counts with its final zero, so that no two lists of words look alike.
        digest.add({word.c_str(), word.size() + 1});
        if (command.text.size() <= kMaxJobCommandText)
            command.text += (command.text.empty() ? "" : " ") + shell_word(word);
    }
    command.digest = digest.value();
    if (command.text.size() > kMaxJobCommandText)
        command.text.resize(before_character(command.text, kMaxJobCommandText));
    return command;
}

std::string shown_beside(const JobCommand& command, const JobCommand& other) {
    const std::string& text = command.text;
    if (text.size() <= kMaxCommandShown) return text;
    const auto differs = std::mismatch(text.begin(), text.end(), other.text.begin(), other.text.end()).first;
    const auto common = static_cast<std::size_t>(differs - text.begin());
    const std::size_t begin = before_character(text, common > kCommonShown ? common - kCommonShown : 0);
    const std::size_t end = before_character(text, std::min(text.size(), begin + kMaxCommandShown));
    return (begin > 0 ? "…" : "") + text.substr(begin, end - begin) + (end < text.size() ? "…" : "");
}

}  // namespace ddprun::inline job
