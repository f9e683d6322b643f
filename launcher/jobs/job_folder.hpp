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

#include "rendezvous/codec/description.hpp"
#include "rendezvous/job/agent_status.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// --- what a folder says of its job; pure
//
// job.json, written at the start, is a JobRecord; result.json, at the end, is what --result-file writes
// (launcher/report/failure_report.hpp), and a JobEnd is the part of it that lists need.

// kMaxCommandBytes: how many bytes of a command line are recorded; the words behind them are replaced by
// "...".
inline constexpr std::size_t kMaxCommandBytes = 64 * 1024;

// kMostOutputKept is how many bytes of its output a job has in a file that is made anew, where something has
// removed the first.
inline constexpr off_t kMostOutputKept = off_t{16} << 20;

struct JobRecord {
    std::string id;  // the name of the folder, what ddpctl takes
    std::string job_id;
    std::string entry_name;
    std::string directory;             // where the job was started
    std::vector<std::string> command;  // the launcher's command line
    int node_rank = 0;
    int nnodes = 1;
    int workers = 0;  // on this node
    // pid is the launcher's; the pid alone may be another process's by now.
    pid_t pid = 0;
    std::uint64_t start_time = 0;  // as ProcessStat has it
    std::int64_t start_unix_ms = 0;
    bool operator==(const JobRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(JobRecord, (),
                      (id, job_id, entry_name, directory, command, node_rank, nnodes, workers, pid,
                       start_time, start_unix_ms))

struct JobEnd {
    int exit_code = 0;
    std::string outcome;
    std::string sentence;  // what failed
    std::string message;
    std::int64_t end_unix_ms = 0;
    int restart_count = 0;
    int max_restarts = 0;
    std::vector<WorkerStatus> workers;  // of this node, in the last round
};
BOOST_DESCRIBE_STRUCT(JobEnd, (),
                      (exit_code, outcome, sentence, message, end_unix_ms, restart_count, max_restarts,
                       workers))

std::string to_json(const JobRecord& record);

// Returns nothing for a text that is no such record, as parse_job_end() does.
std::optional<JobRecord> parse_job_record(std::string_view text);
std::optional<JobEnd> parse_job_end(std::string_view text);

// Returns what users call a job, on all of its nodes alike: "train-7f3a", at most kMaxJobName signs. The
// first part is its program without folders, ending and what may not stand in a file name or on a terminal.
// The last four signs are made of the job's id.
std::string job_name(std::string_view entry_name, std::string_view job_id);
inline constexpr std::size_t kMaxJobName = 24;

// --- the folders

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

// --- run.json says what a launcher was started with, for people: its words and the names of its variables,
// no secrets; pure

inline constexpr std::string_view kRunFile = "run.json";
// kMaxRunFile: how large the file is at most. The kernel takes 2 MiB of arguments and environment by default,
// and JSON needs six bytes for some of theirs.
inline constexpr std::size_t kMaxRunFile = 16 * 1024 * 1024;

struct RunRecord {
    std::string program;             // the file that was executed …
    std::string called;              // … by what name …
    std::vector<std::string> words;  // … and with which words: masked_words()
    std::string directory;
    std::vector<std::string> variables;  // RecordedVariables::names
    Environment environment;             // … and values
    std::string version;
    std::string host;
    std::int64_t start_unix_ms = 0;
    std::string job_id;  // RoundReady's
    int node_rank = 0;   // in the first round of this node
    bool operator==(const RunRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(RunRecord, (),
                      (program, called, words, directory, variables, environment, version, host,
                       start_unix_ms, job_id, node_rank))

std::string to_json(const RunRecord& record);

// Returns nothing for a text that is no such record.
std::optional<RunRecord> parse_run_record(std::string_view text);

// RecordedVariables: what is recorded of an environment, which is all names, and the values of the families
// that say how a job runs.
struct RecordedVariables {
    std::vector<std::string> names;
    Environment values;
};
RecordedVariables recorded_variables(const Environment& environment);

}  // namespace launch
}  // namespace ddprun
