// Writes run.json into the folder of --log-dir.
#pragma once

#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/path_template.hpp"

namespace ddprun {

// `called` and `words`: argv, split; `known`: for the signs in the folder's name. Where there is no such folder nothing is
// written; where it fails, one line warns and the job goes on. A file of the name that no launcher has written stays as it
// is. Of several nodes only the one that hosts knows by now when the job was started: of a folder with signs, that one writes.
void write_run_file(const LaunchOptions& options, const std::string& called,
                    const std::vector<std::string>& words, const PathFacts& known, LauncherLog& log);

}  // namespace ddprun
