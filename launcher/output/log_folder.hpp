// LogFolder: the folders of one job's files on this node, torchrun's layout.
//
//   <--log-dir, filled in as path_template.hpp says, or a new ddprun_XXXXXX among the temporary files>/
//       <run id>_XXXXXX/attempt_<n>/
//       filtered_stdout.log  filtered_stderr.log
//       <local rank>/stdout.log  stderr.log  error.json
//
// Where the job may have several nodes, which may share the place, the run's own folder says whose it is:
// <run id>_node<number>_<host>_XXXXXX. It is made with the first round.
//
// Where no logs are wanted and no place was chosen, workers still have error files, but in one folder only,
// since making and removing one for each of eight workers takes a tenth of a short job's time:
//
//   ddprun_XXXXXX/attempt_<n>_<local rank>_error.json
//
// Folders that stayed empty are removed at the end if the user did not choose the place, and so is what
// launchers before have left there (launcher/folder_sweep.hpp). Used by the agent's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/folder_claim.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/path_template.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// The run's own folder, when it has been made.
struct RunFolder {
    std::string path;
    std::string job_id;
    int node_rank = 0;
};

// What is left in it; returns one line about trouble.
using RunFolderWork = std::function<std::optional<std::string>(const RunFolder&)>;

class LogFolder {
  public:
    // Nothing is created yet. `temporary` is where temporary files go (TMPDIR, else /tmp).
    LogFolder(const OutputPlan& plan, std::string temporary);
    LogFolder(const LogFolder&) = delete;
    LogFolder& operator=(const LogFolder&) = delete;
    ~LogFolder();

    // The folder of a round, and that of one of its local ranks; created if it is not there, and so is all above it,
    // under another name, if that has vanished. Throw a system_error that names --log-dir when that fails. Empty when there are no files.
    std::string round(const PathFacts& facts, int round);
    std::string worker(const std::string& round_folder, int local_rank);

    // The run's own folder; empty where there is none yet, or a folder for error files only.
    std::string run() const { return bare_ ? std::string() : job_; }

    // What the worker is told to write why it failed to, in the folder worker() gave; empty for none.
    std::string error_file(const std::string& worker_folder, int local_rank) const;

    // The folder among the temporary files that this has made, and removes if nothing is in it; empty for none.
    std::string temporary() const { return chosen_by_user_ ? std::string() : base_; }

  private:
    void create_base(const PathFacts& facts);
    void create(const std::string& path);

    std::string chosen_;  // by the user, not filled in
    std::string base_;
    FolderClaim claim_;  // on a base that the user did not choose
    std::string temporary_;
    std::string job_;
    bool files_;
    bool chosen_by_user_;
    bool bare_;  // for error files only
    int round_ = 0;
    std::vector<std::string> created_;
};

// TMPDIR, else /tmp.
std::string temporary_folder(const Environment& environment);

// Makes the folder of --log-dir and tells what is wrong with it, in one line that names the flag; nothing
// if it is in order. For the command line, where it is bad input.
std::optional<std::string> log_dir_complaint(const OutputPlan& plan);

}  // namespace ddprun::inline launch
