// names_in() and the functions beside it tell what the words and variables of a command name that may decide
// which code runs: files, modules of Python, and folders that are searched. Pure; no file is looked at.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// kMaxNamedFiles is how many names a command may have in it, see names_in().
inline constexpr std::size_t kMaxNamedFiles = 65536;

// CodePlace says what the value of a variable names.
enum class CodePlace {
    words,      // files, as words of a command do
    commands,   // folders in which programs are looked for
    modules,    // folders in which Python looks for modules
    libraries,  // folders in which the system looks for shared libraries
    folders,    // folders in which anything may be code
    home,       // the folder in which Python and shells have files of the user's
};

// CodeVariable is a variable that is set, by the environment or by a word, and decides which code runs.
struct CodeVariable {
    CodePlace place = CodePlace::words;
    std::string value;
};

// Returns what the words may name as files: each word, and what begins and ends in it where texts are parted.
// Throws Error where that is more than kMaxNamedFiles.
std::set<std::string> names_in(const std::vector<std::string>& words);

// Returns the modules of Python that the words name: python3 -m NAME, also within a shell's text.
std::vector<std::string> modules_in(const std::vector<std::string>& words);

// Returns those of the environment's variables that decide which code runs, and those that words set
// (--env=NAME=VALUE, NAME=VALUE in a shell's text). A value is taken as it is written.
std::vector<CodeVariable> code_variables(const Environment& environment,
                                         const std::vector<std::string>& words);

// Returns the folders of such a value; a part without a name is the working directory.
std::vector<std::string> folders_in(const CodeVariable& variable);

// Says whether Python could import the entry of a folder for one of the modules: x.py, x.cpython-311.so, x.
bool is_of_module(std::string_view entry, const std::set<std::string>& modules);

// Returns what Python itself imports once the folder of a module or of a package that it is to run is the
// first on its path, and what lies beside: __main__, __pycache__.
std::set<std::string> modules_before_program();

// Says whether Python could import the entry of a folder, a folder aside.
bool may_be_module(std::string_view entry);

// Says whether the dynamic loader could take the entry of a folder of libraries.
bool may_be_library(std::string_view entry);

}  // namespace launch
}  // namespace ddprun
