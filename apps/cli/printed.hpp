// What is printed of a program's options besides --help: the manual and the table of the README. Pure: CLI11's description of the program in, a text out.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace ddprun {

// --print-completion, and two that --help does not show: --print-man and --print-flags.
void add_print_options(CLI::App& app);

// What they ask for, once `app` has parsed. Throws UsageError for an unknown shell.
std::optional<std::string> printed(const CLI::App& app);

// A page of section 1, for man.
std::string man_page(const CLI::App& app);

// A table in Markdown, one row an option.
std::string flag_table(const CLI::App& app);

}  // namespace ddprun
