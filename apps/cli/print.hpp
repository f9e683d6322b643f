// What a program has been asked to show, on standard output.
#pragma once

#include <string>

namespace ddprun::inline app {

// Prints all of `text`. Throws system_error where it cannot be written; a reader that has seen enough is no error.
void print(const std::string& text);

// Shows a text to read, as git does: on a terminal through $DDPRUN_PAGER, $PAGER or less, where there is one, and waits until
// the reader has left it; else as print() does. The pager is a command of the shell; cat, or none (DDPRUN_PAGER=), is print().
void show_text(const std::string& text);

}  // namespace ddprun::inline app
