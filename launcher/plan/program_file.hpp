// What a program's file is, where its name alone does not say who runs it.
#pragma once

#include <string>

namespace ddprun {

// Whether Python runs what the user called `name`, as torchrun would, and nothing else could:
//   a folder with __main__.py, a zip archive (without a first line of its own for the system), and
//   a file that cannot be executed, unless that is a binary or its first line names another interpreter ("#!/bin/sh").
// `executable` is the file that execvp would take for the name; empty: none. Reads the beginning of the file.
bool is_for_python(const std::string& name, const std::string& executable);

}  // namespace ddprun
