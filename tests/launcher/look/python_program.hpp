// PythonProgram is nested_calls.py under an interpreter, whose stacks a test knows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/look/python_frames.hpp"
#include "tests/launcher/look/other_process.hpp"

namespace ddprun {

// Returns the interpreters of 3.8 and later that this machine has: /usr/bin's, those in pyenv's folder, and
// those that DDPRUN_PYTHONS names, parted by colons.
std::vector<std::string> pythons();

// Returns the line of nested_calls.py with that mark.
int marked_line(const std::string& mark);

class PythonProgram {
  public:
    // Returns when the program has said that it is ready.
    PythonProgram(const std::string& python, const std::string& way);

    pid_t pid() const { return process_.pid(); }

    // Returns what is read now; nothing: no Python.
    std::optional<PythonStacks> stacks() const;

  private:
    OtherProcess process_;
};

std::optional<PythonStacks> stacks_of(pid_t pid);

// Returns "wait:10 fetch:23 …" with the innermost frame first: functions without what they are in, lines of
// nested_calls.py. Frames of other files and of lambdas are left out.
std::string own_frames(const PythonThread& thread);

// Returns the same of the marks, of functions called like them; that of "main" is <module>.
std::string marked_frames(const std::vector<std::string>& marks);

}  // namespace ddprun
