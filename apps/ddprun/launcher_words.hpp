// Where the launcher's own words end and the program's begin. Pure.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ddprun {

// Splits the words into the launcher's, with dashes in the options' names, and the program's. The launcher's
// end at "--" or at the first word that is neither an option of `app` nor an option's value. One "--" is
// dropped, before the program or else directly behind its name, as argparse does. An option with an empty
// value counts as not given and is left out. Throws UsageError for an option that is none and for one without
// its value.
std::vector<std::string> take_launcher_words(const CLI::App& app, const std::vector<std::string>& words,
                                             std::vector<std::string>& program);

}  // namespace ddprun
