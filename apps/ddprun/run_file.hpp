// Writes run.json into the folder of --log-dir.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/path_template.hpp"

namespace ddprun {

// What a launcher was started with.
struct RunStart {
    const std::string& called;  // argv, split
    const std::vector<std::string>& words;
    std::optional<std::string>
        record;  // of an agent that a starter has started: the starter's own; may be empty
};

// For StartPlan: what the starter was started with. Empty where that cannot be known.
std::string run_record_of(const RunStart& start);

// `known`: for the signs in the folder's name. Where there is no such folder nothing is written; where it fails, one line warns and the job goes on. A file of the name that no launcher has written stays as it
// is. Of several nodes only the one that hosts knows by now when the job was started: of a folder with signs, that one writes.
void write_run_file(const LaunchOptions& options, const RunStart& start, const PathFacts& known,
                    LauncherLog& log);

}  // namespace ddprun
