// What kind of program a worker runs: one's own binary, Python, or something that may start anything. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun::inline launch {

enum class ProgramKind {
    by_python,  // ddprun runs it by Python
    python,     // the user's own words run Python
    native,     // a binary that is no interpreter, shell or wrapper
    other,      // scripts, shells and wrappers, which start who knows what, and what cannot be looked into
};

// What lies where a program's name leads.
struct ProgramFile {
    bool is_for_python = false;  // nothing but Python could run it, see program_file.hpp
    bool is_binary = false;      // the system runs it by itself
    std::vector<std::string>
        interpreter;        // the words behind #! of its first line, as the system passes them on
    std::string real_name;  // without folders, behind all links; empty: none can be executed
};

// Whether they start Python: `python3.11 …`, also behind `env` with options and variables.
bool runs_python(std::vector<std::string> words);

// Of a program that is executed as it is: python, native or other. A name counts, and so does that of the file behind
// its links; a binary that is given Python, or a file of it, to run is a wrapper as well.
ProgramKind kind_of(const std::vector<std::string>& words, const ProgramFile& file);

}  // namespace ddprun::inline launch
