// JobsPlace and the functions here are about the folders of jobs: where they are, which users may see them,
// what is in them, which of them are kept. Used by ddprun (writes) and ddpctl (reads); blocking, short.
//
// The folders are in $DDPRUN_JOBS_DIR/ddprun, else in /tmp/ddprun-UID. Any user can make the latter before;
// then the jobs are in a folder /tmp/ddprun-UID-XXXXXX, which is known by its owner. Unlike $XDG_RUNTIME_DIR,
// neither folder goes with the session that has started a job, and every shell of the user's finds it:
// cron's, su's and sudo's, too.
//
//   <jobs folder>/<id>/output       what the workers and the launcher print
//                      job.json     JobRecord: which launcher runs it
//                      control      unix stream socket, while the launcher lives
//                                   (launcher/view/job_socket.hpp)
//                      result.json  how it ended; until then .result keeps its room on the disk
//
// A job in the foreground has neither output nor result there.
//
// The jobs folder belongs to one user, and no other may look into it. A job's folder has another name, with a
// dot in front, until the workers run. A launcher claims its job's folder (launcher/folder_claim.hpp), and
// lives as long as the claim holds.
#pragma once

#include <sys/types.h>

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
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// kMostOutputKept is how many bytes of its output a job has in a file that is made anew, where something has
// removed the first.
inline constexpr off_t kMostOutputKept = off_t{16} << 20;

struct JobsPlace {
    Environment environment;
    uid_t uid = 0;  // the effective one
    std::filesystem::path shared = "/tmp";
};

// kJobsVariable names where the user wants the jobs folder.
inline constexpr char kJobsVariable[] = "DDPRUN_JOBS_DIR";

// Returns where the jobs are; the folder need not be there. An empty path: another user has taken the name,
// and this user has never had a detached job beside that.
std::filesystem::path find_jobs_folder(const JobsPlace& place);

// Returns that folder, or another one that is made and will be found. Throws Error if there is none that is
// ours alone: a real folder, no symbolic link, owned by the effective user, without any permission for
// others.
std::filesystem::path make_jobs_folder(const JobsPlace& place);

// Returns whether the folder is there. Throws Error if it is not ours alone, or is where others can give its
// name to another one.
bool is_private_folder(const std::filesystem::path& folder);

// kMaxEndedJobs: how many of the jobs that have ended are kept, the newest.
inline constexpr std::size_t kMaxEndedJobs = 20;

// Makes a folder for a job that starts. Throws Error.
std::filesystem::path make_starting_folder(const std::filesystem::path& jobs);

// Removes a job's folder if it is there; nothing for an empty path.
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
    std::optional<JobRecord> record;  // missing only if something destroyed it
    std::optional<JobEnd> end;
    std::int64_t last_output_unix_ms = 0;  // of a lost job, when something was last printed
};

// Returns all jobs that have run workers, the oldest first.
std::vector<Job> list_jobs(const std::filesystem::path& jobs);

// Returns true if the launcher of this job still lives: the folder is claimed, or the record's process is
// there (where claims mean nothing).
bool launcher_lives(const Job& job);

// Returns what becomes readable when the launcher of this job ends; nothing if it has ended already. Throws
// Error for a launcher in another PID namespace, where its end cannot be seen.
std::optional<OwnedDescriptor> open_launcher(const Job& job);

// Returns the job with this id, else the only job with an id that begins with `id`, else the only running one
// of those. Otherwise returns one line that says why there is none. Pure.
std::variant<Job, std::string> find_job(const std::vector<Job>& jobs, std::string_view id);

// Removes what launchers have left that died while they started, or that ran their job in the foreground.
void remove_left_over(const std::filesystem::path& jobs);

// Removes what remove_left_over() does, and the folders of ended and lost jobs but for the newest `kept`.
void prune_jobs(const std::filesystem::path& jobs, std::size_t kept = kMaxEndedJobs);

}  // namespace launch
}  // namespace ddprun
