// A ProgramFault says why a program cannot be started: from the name that the user wrote, it makes a line and
// the exit code that a shell would end with.
#pragma once

#include <optional>
#include <string>

namespace ddprun {
inline namespace launch {

struct ProgramFault {
    std::string text;         // behind the program's name: "no such file"
    int exit_code = 0;        // as a shell would have it: kExitNotFound only where nothing is there
    std::string runner = {};  // what the text says to type in front of the name: "perl"; empty: nothing
};

// Returns why nothing is found by this path: nothing is there, a link leads nowhere, or a folder, which is
// named, may not be entered. Returns nothing where something is there.
std::optional<ProgramFault> missing_fault(const std::string& path);

// Returns what missing_fault() does, or why this user cannot read what is there, or enter it if it is a
// folder.
std::optional<ProgramFault> reading_fault(const std::string& path);

// An UnfitFile is a file that is there, but cannot be executed.
struct UnfitFile {
    std::string name;            // as the user wrote it
    std::string runner;          // what the file is for: "bash"; empty: nothing tells, or it is a binary
    bool runs_by_itself = true;  // once it is executable
    bool is_ours = true;         // this user may make it so
    bool is_noexec = false;      // its file system is mounted with noexec …
    bool is_read_only = false;   // … or read-only
};

// Returns what can be done about such a file, and nothing that would not help. Pure.
ProgramFault fault_of(const UnfitFile& file);

// Returns the interpreter that files of such a name are for ("perl" for x.pl), or empty.
std::string runner_by_ending(const std::string& name);

// Returns why nothing can be executed by this name; nothing was found on PATH for it if it is bare. `runner`
// is what the file's first line says that it is for, or empty.
ProgramFault execution_fault(const std::string& name, const std::string& runner = {});

}  // namespace launch
}  // namespace ddprun
