// printed() and the functions here make the texts about a program's options: help, the manual, and the table
// of the README. Pure: CLI11's description of the program in, a text out.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/option_row.hpp"

namespace CLI {
class App;
}

namespace ddprun {
inline namespace app {

// Returns what --help shows, at most 80 columns wide. `topic`: empty or "all": all options; one of them, with
// or without dashes; a group's heading; or an exit code, with its meaning from the manual's table. A single
// option and a group are shown with their whole texts. Throws UsageError for another topic.
std::string help_text(const CLI::App& app, const std::vector<OptionGroup>& groups, const std::string& topic);

// Adds --licenses and --print-completion, and two options that --help does not show: --print-man and
// --print-flags.
void add_print_options(CLI::App& app);

// Returns whether one of those options was given, once `app` has parsed; printed() returns what it asks for
// then. Throws UsageError for an unknown shell.
bool wants_print(const CLI::App& app);
std::string printed(const CLI::App& app);

// Makes the headings bold for a terminal: each line behind an empty one that has an indented one behind it.
std::string with_bold_headings(const std::string& text);

// Returns LICENSE with the licences of the libraries inside (licenses.txt), which the build has put into the
// program.
std::string licenses();
// Returns the rows of the manual's table of exit codes, without Markdown's signs.
std::string exit_code_table();

}  // namespace app
}  // namespace ddprun
