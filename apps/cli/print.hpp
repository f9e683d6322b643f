// print() and the functions here show what a program is asked for in place of work: help, version and
// documentation, on standard output.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/cli/option_row.hpp"

namespace ddprun {
inline namespace app {

// Adds --help, --version, and the options by which the documentation is printed. `usage` is what follows the
// program's name; empty: CLI11's.
void add_standard_options(CLI::App& app, const std::string& version, const std::string& usage = "");

// Lets CLI11 cut the words up. Returns what is to be shown in place of work: --help, --version, the
// documentation. `topic` is what --help is asked about, see help_text(). Throws UsageError.
std::optional<std::string> parse_words(CLI::App& app, const std::vector<OptionGroup>& groups,
                                       std::vector<std::string> words, const std::string& topic = {});

// Prints all of `text`. Throws system_error where it cannot be written; a reader that has seen enough is no
// error.
void print(const std::string& text);

// Shows a plain text to read, as git does: on a terminal through $DDPRUN_PAGER, $PAGER or less, where there
// is one, and waits until the reader has left it. Elsewhere, and for a single line, it does what print()
// does. The pager is a command of the shell; cat, or none (DDPRUN_PAGER=), is print(). Headings are bold on a
// terminal, unless NO_COLOR is set.
void show_text(const std::string& plain);

}  // namespace app
}  // namespace ddprun
