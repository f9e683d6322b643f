// A Program is what a worker runs: from the user's words on the command line to the argv of each worker. A
// ProgramKind says what it is: the user's own binary, Python, or something that may start anything. Only
// look_at_program() reads a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/program_fault.hpp"

namespace ddprun {
inline namespace launch {

// kCarriageReturnRemedy: said where a script's lines, or the words in one, end as on Windows.
inline constexpr const char* kCarriageReturnRemedy =
    ", as lines of Windows do; sed -i 's/\\r$//' FILE takes them out of the script";

enum class ProgramKind {
    by_python,  // ddprun runs it by Python
    python,     // the user's own words run Python
    native,     // a binary that is no interpreter, shell or wrapper
    other,      // scripts, shells and wrappers, which may start anything, and what cannot be looked into
};

// ProgramFile is what lies where a program's name leads.
struct ProgramFile {
    std::optional<ProgramFault> unreadable;  // why it cannot be read, if the name is a path
    std::optional<ProgramFault> fault;       // why it cannot be executed as it is (architecture not checked)
    bool is_for_python = false;              // nothing but Python could run it
    bool is_binary = false;                  // the system runs it by itself
    std::vector<std::string>
        interpreter;               // the words behind #! of its first line, as the system passes them on
    std::string real_name;         // without folders, behind all links; empty: nothing can be executed
    bool starts_launcher = false;  // its first line names this launcher, by any of its names
    std::string python_path;       // where Python finds a program that is on PATH and for Python
};

// Returns the interpreter that the first line of a text names, if that is not Python: "bash"; else empty.
std::string other_interpreter(std::string_view text);

// Tells the kind of a program that is executed as it is: python, native or other. The name counts, and the
// name of the file behind its links. A binary that is given Python, or a file of Python, to run is a wrapper,
// too.
ProgramKind kind_of(const std::vector<std::string>& words, const ProgramFile& file);

// Looks at what the user called `name`, and reads the beginning of the file. `executable` is the file that
// execvp would take for it; empty: none. As with torchrun, the program is for Python where nothing else could
// run it:
//   a folder with __main__.py
//   a zip archive (without a first line of its own for the system)
//   a file that cannot be executed, unless it is a binary, or is another interpreter's by its first line
//   ("#!/bin/sh") or, without one, by the ending of its name (runner_by_ending)
//   a script with a first line that names this launcher ("#!/usr/bin/env -S ddprun"), which would start
//   itself without end
//   a Python script with Windows line ends, of which the system finds no interpreter.
ProgramFile look_at_program(const std::string& name, const std::string& executable);

// ProgramRequest is what the command line says of the program.
struct ProgramRequest {
    std::string program;                     // script, module or executable, as the user wrote it
    std::vector<std::string> arguments;      // everything behind it, untouched
    bool module = false;                     // -m: a Python module
    bool no_python = false;                  // --no-python: executed as it is, whatever its name
    bool python = false;                     // --python: a Python script, whatever its name
    bool run_path = false;                   // --run-path: Python runs it as a path
    ProgramFile file;                        // what lies there
    std::string local_rank_option;           // put before the arguments, as "NAME=N"; empty: none
    bool substitutes_all = false;            // torchrun's rule for `$` holds for every argument
    std::optional<std::string> python_exec;  // $PYTHON_EXEC
};

struct Program {
    std::vector<std::string> argv;  // with the macros of the arguments still in it
    ProgramKind kind = ProgramKind::other;
    std::string entry_name;  // the name in reports: the script, the module, or the executable
    std::optional<ProgramFault> fault;
    bool substitutes_all = false;  // see argv_for_worker
};

// Chooses the program, or returns one line that says why it cannot be executed as it is.
//   --run-path                 python -u -c CODE PROGRAM ..., where CODE does what Python's runpy.run_path
//                              does, under the name __main__, and writes an exception to
//                              $TORCHELASTIC_ERROR_FILE
//   -m MODULE                  python -u -m MODULE ...
//   --no-python                PROGRAM ...
//   a name in .py, --python, or what is for Python
//                              python -u PROGRAM ...
//   anything else              PROGRAM ..., also a script that cannot be read, which nothing can start
// The first row that holds counts, where python is python_name(), looked for on PATH.
std::variant<Program, std::string> choose_program(const ProgramRequest& request);

// Names what a Python program is run by: $PYTHON_EXEC, or else python3.
std::string python_name(const std::optional<std::string>& python_exec);

// Makes the argv of one worker. In an argument behind argv[0] that has `${local_rank}` or `$local_rank` in
// it, these become the number and `$$` becomes `$`. Any other use of `$` stays as it is. The rules are those
// of Python's string.Template.safe_substitute, which torchrun applies to every argument. Here an argument
// that does not name the macro is passed on byte for byte, so that `sh -c 'echo $$'` means what it says,
// unless `substitutes_all`.
std::vector<std::string> argv_for_worker(const Program& program, int local_rank);

}  // namespace launch
}  // namespace ddprun
