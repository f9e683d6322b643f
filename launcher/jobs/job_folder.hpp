// A Job is what the folder of a job says of it. The functions here make such folders, read and remove them.
// Used by ddprun (writes) and ddpctl (reads); blocking, short.
//
//   <jobs folder>/<id>/output       what the workers and the launcher print
//                      job.json     JobRecord: which launcher runs it
//                      control      unix stream socket, while the launcher lives
//                                   (launcher/view/job_socket.hpp)
//                      result.json  how it ended; until then .result keeps its room on the disk
//
// A job in the foreground has neither output nor result there.
//
// The jobs folder (jobs_place.hpp) belongs to one user, and no other may look into it. A job's folder has
// another name, with a dot in front, until the workers run. A launcher claims its job's folder
// (launcher/folder_claim.hpp), and lives as long as the claim holds. What else is in the jobs folder is
// neither a job nor touched: a job's folder has a job.json.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/jobs/job_record.hpp"
#include "rendezvous/codec/description.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

// kRecordName and the next: the files of a job's folder.
inline constexpr std::string_view kRecordName = "job.json";
inline constexpr std::string_view kRecordRoomName = ".job";  // keeps room on the disk for the record
inline constexpr std::string_view kOutputName = "output";
inline constexpr std::string_view kResultName = "result.json";
inline constexpr std::string_view kResultRoomName = ".result";
inline constexpr std::array kJobFiles = {kRecordName, kRecordRoomName, kOutputName, kResultName,
                                         kResultRoomName};

// kMostOutputKept is how many bytes of its output a job has in a file that is made anew, where something has
// removed the first.
inline constexpr off_t kMostOutputKept = off_t{16} << 20;

// kMaxEndedJobs: how many of the jobs that have ended are kept, the newest.
inline constexpr std::size_t kMaxEndedJobs = 20;

// Makes a folder for a job that starts. Throws Error.
std::filesystem::path make_starting_folder(const std::filesystem::path& jobs);

// Removes a job's folder if it is there: kJobFiles, sockets, and the folder unless something else is in it.
void remove_job_folder(const std::filesystem::path& folder);

// Gives the folder its final name, with "-2" or a higher number behind it where another job has that; returns
// where the folder is now. Throws Error.
std::filesystem::path publish_job_folder(const std::filesystem::path& starting, const std::string& name);

enum class JobState {
    running,
    ended,  // the launcher wrote a result
    lost,   // the launcher is gone and wrote none
};
BOOST_DESCRIBE_ENUM(JobState, running, ended, lost)

struct Job {
    std::string id;
    std::filesystem::path folder;
    JobState state = JobState::lost;
    bool is_suspended = false;        // its launcher runs and is stopped, by Ctrl-Z or SIGSTOP
    std::optional<JobRecord> record;  // missing only if something destroyed it
    std::optional<JobEnd> end;
    std::int64_t last_output_unix_ms = 0;  // of a lost job, when something was last printed
};

// Returns all jobs that have run workers, the oldest first.
std::vector<Job> list_jobs(const std::filesystem::path& jobs);

// Returns true for a job that has no file for its output.
bool is_in_foreground(const Job& job);

// Returns true if the launcher of this job still lives: the folder is claimed, or the record's process is
// there (where claims mean nothing).
bool launcher_lives(const Job& job);

// Returns what becomes readable when the launcher of this job ends; nothing if it has ended already. Throws
// Error for a launcher in another PID namespace, where its end cannot be seen.
std::optional<OwnedDescriptor> open_launcher(const Job& job);

// Returns the job with this id, else the only job with an id that begins with `id`, else the only running one
// of those; a program's whole name means that program's jobs. Otherwise returns one line that says why there
// is none. Pure.
std::variant<Job, std::string> find_job(const std::vector<Job>& jobs, std::string_view id);

// Removes what launchers have left that died while they started, or that ran their job in the foreground.
void remove_left_over(const std::filesystem::path& jobs);

// Removes what remove_left_over() does, and the folders of ended and lost jobs but for the newest `kept`.
void prune_jobs(const std::filesystem::path& jobs, std::size_t kept = kMaxEndedJobs);

}  // namespace launch
}  // namespace ddprun
