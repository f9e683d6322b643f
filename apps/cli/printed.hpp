// What is printed of a program's options besides --help: the manual and the table of the README. Pure: CLI11's
// description of the program in, a text out.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace ddprun::inline app {

// --print-completion, and two that --help does not show: --print-man and --print-flags.
void add_print_options(CLI::App& app);

// Whether one of them was given, once `app` has parsed; and what it asks for then. Throws UsageError for an unknown
// shell.
bool wants_print(const CLI::App& app);
std::string printed(const CLI::App& app);

}  // namespace ddprun::inline app
