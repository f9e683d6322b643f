// Writes run.json into the folder of --log-dir.
#pragma once

#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"

namespace ddprun {

// `called` and `words`: argv, split. Where there is no such folder nothing is written; where it fails, one line warns and the
// job goes on. A file of the name that no launcher has written stays as it is.
void write_run_file(const LaunchOptions& options, const std::string& called,
                    const std::vector<std::string>& words, LauncherLog& log);

}  // namespace ddprun
