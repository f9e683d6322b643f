// Words of the command line as others may see them: without the values of variables whose names say that they are secret
// (--env, --env-rank). Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::inline app {

// A value of the option of this long name: "3:MY_TOKEN=(not shown)".
std::string shown_option_value(const std::string& option, const std::string& value);

// The launcher's words with whole names, up to the program's, which stay as they are.
std::vector<std::string> shown_launcher_words(std::vector<std::string> words);

}  // namespace ddprun::inline app
