// `ddpctl rerun`: starts again what a run.json tells of.
#pragma once

#include <string>
#include <vector>

#include "apps/ddpctl/command_line.hpp"
#include "launcher/jobs/job_folder.hpp"

namespace ddprun::inline app {

// A Rerun says what is executed, and where.
struct Rerun {
    std::string program;
    std::vector<std::string> argv;
    std::string directory;
    Environment environment;
    std::string line;  // the same for a shell, without what this process's own environment has anyway
};

// `own` is this process's environment. Pure.
Rerun rerun_of(const RunRecord& record, const Environment& own);

// Reads the record; prints what is run, and becomes it unless --dry-run was given, in which case 0 is returned. Throws
// UsageError for a file that is no such record or a folder that is gone, and Error where the program cannot be executed.
int run_again(const RerunCommand& command);

}  // namespace ddprun::inline app
