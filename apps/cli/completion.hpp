// completion() makes scripts by which a shell completes a program's options. Pure: CLI11's description of the
// program in, a text out.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ddprun {
inline namespace app {

// Makes a script for bash, zsh or fish. A program of CLI11's without positionals and without commands starts
// another program, and the words of that one are completed as its own. Throws BadValue for another shell.
std::string completion(const CLI::App& app, const std::string& shell);

// Returns the options that --help shows, which are those that a shell completes.
std::vector<const CLI::Option*> shown_options(const CLI::App& app);

// Returns the first line of an option's description.
std::string short_text(const CLI::Option& option);

}  // namespace app
}  // namespace ddprun
