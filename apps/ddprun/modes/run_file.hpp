// Writes run.json into the run's own folder below --log-dir.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/launch_options.hpp"
#include "launcher/output/log_folder.hpp"

namespace ddprun::inline app {

// What a launcher was started with.
struct RunStart {
    const std::string& called;  // argv, split
    const std::vector<std::string>& words;
    std::optional<std::string>
        record;  // of an agent that a starter has started: the starter's own; may be empty
};

// For StartPlan: what the starter was started with. Empty where that cannot be known.
std::string run_record_of(const RunStart& start);

// What writes it when the run's folder has been made, for LaunchOptions::in_run_folder; nothing without --log-dir.
RunFolderWork run_file_work(const LaunchOptions& options, const RunStart& start);

}  // namespace ddprun::inline app
