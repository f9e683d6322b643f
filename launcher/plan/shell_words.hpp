// A text cut into words as a POSIX shell does it, without anything that a shell would expand, and back. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::inline launch {

// Words are separated by blanks, tabs and newlines. '...' is taken as it is; in "..." a backslash stands for
// the next character if that is one of \ " $ ` or a newline (which goes); elsewhere it does so for any
// character. "" is an empty word. No variables, patterns, comments or operators: these characters stand for
// themselves. Otherwise what is wrong: a quote that is not closed, or a backslash at the end.
std::variant<std::vector<std::string>, std::string> split_shell_words(std::string_view text);

// The words as a shell, and split_shell_words(), take them: in '...' where they need it, with blanks between.
std::string join_shell_words(const std::vector<std::string>& words);

}  // namespace ddprun::inline launch
