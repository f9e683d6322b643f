// LogFolder and LogFile are the log files of this node. LogFolder makes the folders of one job, in torchrun's
// layout:
//
//   <--log-dir, filled in as path_template.hpp says, or a new ddprun_XXXXXX among the temporary files>/
//       <run id>_XXXXXX/attempt_<n>/
//       filtered_stdout.log  filtered_stderr.log
//       <local rank>/stdout.log  stderr.log  error.json
//
// The run's own folder is made with the first round. Where the job may have several nodes, which may share
// the place, the folder names its node:
//
//   <run id>_node<number>_<host>_XXXXXX
//
// Where no logs are wanted and no place was chosen, workers still have error files, but in one folder only,
// since making and removing one for each of eight workers takes a tenth of a short job's time:
//
//   ddprun_XXXXXX/attempt_<n>_<local rank>_error.json
//
// Folders that stayed empty are removed at the end if the user did not choose the place, as are those that
// earlier launchers left there (launcher/folder_claim.hpp). Used by the agent's thread.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/folder_claim.hpp"
#include "launcher/output/output_plan.hpp"
#include "launcher/path_template.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// RunFolder is the run's own folder, when it has been made.
struct RunFolder {
    std::string path;
    std::string job_id;
    int node_rank = 0;
};

// RunFolderWork leaves something in the run's own folder; returns one line about trouble.
using RunFolderWork = std::function<std::optional<std::string>(const RunFolder&)>;

class LogFolder {
  public:
    // Notes the plan; nothing is created yet. `temporary` is where temporary files go (TMPDIR, else /tmp).
    LogFolder(const OutputPlan& plan, std::string temporary);
    LogFolder(const LogFolder&) = delete;
    LogFolder& operator=(const LogFolder&) = delete;
    ~LogFolder();

    // Returns the folder of a round, and that of one of its local ranks; empty when there are no files. A
    // missing folder is created with all above it, under another name if the folders above have vanished.
    // Throws a system_error that names --log-dir when that fails.
    std::string round(const PathFacts& facts, int round);
    std::string worker(const std::string& round_folder, int local_rank);

    // Returns the run's own folder; empty where there is none yet, or a folder for error files only.
    std::string run() const { return bare_ ? std::string() : job_; }

    // Names the file for the reason of the worker's failure, in the folder that worker() gave; empty for
    // none.
    std::string error_file(const std::string& worker_folder, int local_rank) const;

    // Returns the folder among the temporary files that this object has made, and removes if it is empty;
    // empty for none.
    std::string temporary() const { return chosen_by_user_ ? std::string() : base_; }

  private:
    void create_base(const PathFacts& facts);
    void create(const std::string& path);

    std::string chosen_;  // the user's, not filled in
    std::string base_;
    FolderClaim claim_;  // on the base, or on the run's own folder if the user chose the base
    std::string temporary_;
    std::string job_;
    bool files_;
    bool chosen_by_user_;
    bool bare_;  // the base is for error files only
    int round_ = 0;
    std::vector<std::string> created_;
};

// Returns TMPDIR, else /tmp.
std::string temporary_folder(const Environment& environment);

// Makes the folder of --log-dir and returns what is wrong with it, in one line that names the flag; nothing
// if it is in order. For the command line, where a wrong folder is bad input.
std::optional<std::string> log_dir_complaint(const OutputPlan& plan);

// LogFile is one log file of bounded size that never gets in the way.
//
// What cannot be written (full disk, quota, file-size limit, no permission to create the file) is dropped and
// counted; the next write is tried again. Used by one thread, the pump's; never throws.
//
// With a limit the file is at all times: head, one line that says how many bytes were left out, tail. When
// the file is full, the older half of the tail is taken out. The file is therefore read from top to bottom
// like any other, also after a crash. Tail and head begin and end at line ends where one is near.
//
// Other programs may cut the file meanwhile (logrotate's copytruncate). What comes then stands at its end,
// without a hole before it.
class LogFile {
  public:
    // WriteFunction is pwrite(2), which appends whatever the offset unless the middle is taken out. Tests put
    // failures in.
    using WriteFunction = std::function<ssize_t(int, const void*, std::size_t, off_t)>;

    // kMaxHead: the most bytes of the head, which takes a quarter of the limit.
    static constexpr std::uint64_t kMaxHead = std::uint64_t{1} << 20;

    // Creates the file or empties it. `limit` 0: none.
    LogFile(std::string path, std::uint64_t limit, WriteFunction write = ::pwrite);
    LogFile(const LogFile&) = delete;
    LogFile& operator=(const LogFile&) = delete;
    ~LogFile();

    void write(std::string_view bytes);

    // Shows an unfinished line at the end of the file; the next write takes its place.
    void show_unfinished(std::string_view text);

    const std::string& path() const { return path_; }

    // Returns how many bytes were not written because of errors; error_number() is the errno of the last one.
    std::uint64_t dropped() const { return dropped_; }
    int error_number() const { return error_number_; }

  private:
    bool take_out_middle();
    void append(std::string_view bytes);
    // Returns true if all of it was written; `offset` is where the next bytes go then.
    bool write_at(std::uint64_t& offset, std::string_view bytes);
    // Reads how long the file is now.
    void look();
    // Removes the unfinished line that was shown.
    void cut();
    std::uint64_t head_limit() const;
    std::uint64_t line_end_before(std::uint64_t offset) const;
    std::uint64_t line_start_after(std::uint64_t offset) const;
    bool move_down(std::uint64_t from, std::uint64_t to);

    std::string path_;
    std::uint64_t limit_;
    WriteFunction write_;
    OwnedDescriptor fd_;
    std::uint64_t size_ = 0;        // of what was written for good
    std::uint64_t shown_ = 0;       // how far the file reaches beyond `size_`
    std::uint64_t head_ = 0;        // where the head ends, once something was left out
    std::uint64_t tail_start_ = 0;  // where the tail begins then
    std::uint64_t left_out_ = 0;
    std::uint64_t dropped_ = 0;
    int error_number_ = 0;
};

}  // namespace launch
}  // namespace ddprun
