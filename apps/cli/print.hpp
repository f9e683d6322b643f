// What a program has been asked to show, on standard output.
#pragma once

#include <string>

namespace ddprun::inline app {

// All of `text`. Throws system_error where it cannot be written; a reader that has seen enough is no error.
void print(const std::string& text);

}  // namespace ddprun::inline app
