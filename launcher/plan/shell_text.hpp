// commands_of parts a shell's text (bash -c TEXT) into its commands, where these are simple ones: words,
// redirections and pipes. Pure; nothing is expanded, and it is no parser of all that a shell takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// A TextCommand is a simple command of a text.
struct TextCommand {
    std::vector<std::string> words{
        "env"};               // without redirections; variables stand in front as they do behind env
    bool reads_input = true;  // the text's own: not a pipe, another file or, behind &, nothing
};

// Returns the commands; nothing where the text has more than simple ones: substitutions, groups, keywords, a
// document of its own (<<), or a quote that is not closed.
std::optional<std::vector<TextCommand>> commands_of(std::string_view text);

// Tells whether a command passes on what it reads.
bool is_cat(const std::vector<std::string>& words);

// Tells whether another command may stand behind this word: `then`, `{`.
bool is_keyword(std::string_view word);

}  // namespace launch
}  // namespace ddprun
