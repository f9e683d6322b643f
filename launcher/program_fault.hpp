// Why a program cannot be started: from the name that the user wrote to a line, and the code that a shell
// would end with.
#pragma once

#include <optional>
#include <string>

namespace ddprun {
inline namespace launch {

// A ProgramFault says why a program cannot be started.
struct ProgramFault {
    std::string text;   // behind its name: "no such file"
    int exit_code = 0;  // as a shell would have it: kExitNotFound only where nothing is there
};

// missing_fault says why nothing is found by this path: nothing is there, a link leads nowhere, or a folder,
// which is named, may not be entered. It returns none where something is there.
std::optional<ProgramFault> missing_fault(const std::string& path);

// reading_fault says what missing_fault() does, or why this user cannot read what is there, or enter it if it
// is a folder.
std::optional<ProgramFault> reading_fault(const std::string& path);

// An UnfitFile is one that is there, but cannot be executed.
struct UnfitFile {
    std::string name;            // as the user wrote it
    std::string runner;          // what it is for: "bash"; empty: nothing tells, or it is a binary
    bool runs_by_itself = true;  // once it is executable
    bool is_ours = true;         // this user may make it so
    bool is_noexec = false;      // its file system is mounted so
    bool is_read_only = false;   // the same
};

// fault_of says what can be done about such a file, and nothing that would not help. Pure.
ProgramFault fault_of(const UnfitFile& file);

// runner_by_ending gives the interpreter that files of such a name are for: "perl" for x.pl; or empty.
std::string runner_by_ending(const std::string& name);

// execution_fault says why nothing can be executed by this name, for which nothing was found on PATH if it is
// bare. `runner` is what the file's first line says that it is for, or empty.
ProgramFault execution_fault(const std::string& name, const std::string& runner = {});

}  // namespace launch
}  // namespace ddprun
