// What shells complete of a program's command line. Pure.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace ddprun::inline app {

// A script for bash, zsh or fish. A program of CLI11's without positionals and without commands starts another,
// whose own words are completed as that one's. Throws BadValue for another shell.
std::string completion(const CLI::App& app, const std::string& shell);

// `text` with every `what` replaced.
std::string replaced(std::string text, const std::string& what, const std::string& with);

}  // namespace ddprun::inline app
