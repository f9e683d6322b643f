// What a program's file is, where its name alone does not say who runs it.
#pragma once

#include <string>

#include "launcher/plan/program_kind.hpp"

namespace ddprun::inline launch {

// What the user called `name`. `executable` is the file that execvp would take for it; empty: none. Reads the
// beginning of the file. It is for Python, as torchrun would run it, where nothing else could:
//   a folder with __main__.py, a zip archive (without a first line of its own for the system), and
//   a file that cannot be executed, unless that is a binary or its first line names another interpreter ("#!/bin/sh").
ProgramFile look_at_program(const std::string& name, const std::string& executable);

}  // namespace ddprun::inline launch
