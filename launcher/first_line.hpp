// FirstLine and the functions here read how a program's file begins: what runs it, as the system reads it.
// The readers of texts are pure.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// Returns the first bytes of a file: all that the system reads to see what runs it; empty if the file cannot
// be read.
std::string beginning_of(const std::filesystem::path& file);

// FirstLine is what stands behind "#!". The system takes all behind the interpreter for one argument, and a
// carriage return for a part of the word before it.
struct FirstLine {
    std::vector<std::string> words;  // without carriage returns; empty: there is no such line
    bool carriage_return = false;    // the line ends in one, as files edited on Windows do
};
FirstLine first_line_of(std::string_view beginning);

bool is_binary(std::string_view beginning);

// Returns the file that the system needs to run this one: a binary's loader, or the interpreter of the first
// line, with a carriage return at its end. Empty: none, or not to be seen in the file's beginning.
std::string runner_of(std::string_view beginning);

}  // namespace launch
}  // namespace ddprun
