// failure_report says why a job ended: the first failure and its last words, how the others ended, and what
// is left, on one screen; the same on every node. Pure but for result_file_complaint and write_result_file.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace launch {

// kMaxReportLines: lines of the report at most, whatever the facts are.
inline constexpr std::size_t kMaxReportLines = 30;

struct ReportFacts {
    std::string entry_name;  // what the user calls the program (Program::entry_name)
    // finish is the coordinator's last word. An agent that is left alone fills in what it knows: cause,
    // exit_code and the ends of its own workers.
    Finish finish;
    int restarts = 0;  // how many there were, of `max_restarts` that were allowed
    int max_restarts = 0;
    int resizes = 0;
    std::chrono::seconds utc_offset{0};  // of the time zone in which times are shown
    std::vector<std::string> survivors;  // what is left of the job on this node, in words; normally nothing
    // unknown_nodes: nodes that could not be asked for survivors: the first of them by name, if known, and
    // how many in all.
    std::vector<std::string> unknown_nodes;
    int unknown_node_count = 0;
    std::string logs;  // the logs of the first failure's worker, if they are on this node
};

// Returns lines without "ddprun: " in front (the LauncherLog's part) and without a newline at the end. The
// report's parts in order are below. What does not fit is counted, and the evidence loses its middle.
//
//     train.py failed; first failure: rank 5 (local rank 1) on node 1 (gpu07), pid 4242: exit code 7
//       at 2024-05-01 12:34:56.789 +0200; restarts so far: 1 of 3, the last one because of: rank 3: exit code
//       1
//       cannot start './a.out': no such file     (where a worker could not be started, or a node was lost)
//       hint: ...
//       its error file says:                     (message and traceback; with it or without:)
//       its last lines on stderr:                (the reason first if it stands above them, see last_words())
//         | ...
//       rank 3 (local rank 3) on node 0 (gpu06), pid 17: failed too, exit code 1
//       ranks 0-2,4: stopped by ddprun, signal 15 (SIGTERM)
//       and 12 more: 12 stopped by ddprun
//       gave up after 3 restarts without progress   (Finish::message)
//       exiting with code 7
//       survivors: 0, unknown on node 1 (gpu07)
//       logs: /tmp/ddprun_AbC123/none_x1Y2z3/attempt_0 (rank 5: 1/stderr.log)   (if there are any here)
std::string failure_report(const ReportFacts& facts);

// Returns the first line of the report, by which the result file, ddpctl and Python tell of the failure, too.
std::string failure_sentence(const std::string& entry_name, const Failure& cause);

// Says how the ranks besides the first failure ended: at most `room` (at least 1) lines about Finish::others
// and the counts beside it. Each rank has a line if they fit, else all ranks that ended alike share one. The
// last line has the number of those that are not listed.
std::vector<std::string> end_lines(const Finish& finish, std::size_t room);

// Returns "rank 3", "ranks 0-2,5".
std::string ranks_text(std::vector<int> ranks);

// --- the result file (--result-file) has the whole truth about a job as one JSON object, for programs that
// started it; to_json is pure, and apps/ddprun/manual/files.md lists the members

enum class Outcome {
    succeeded,     // every worker ended with 0
    failed,        // a worker failed
    preempted,     // a signal ended the job and every worker ended with 0 after it
    signalled,     // a signal ended the job
    node_lost,     // a node was lost, or the coordinator with its node
    not_started,   // no worker ran: the program was not found, or a process could not be made
    not_admitted,  // this node never became part of the job: nodes were missing, or it was refused
};
BOOST_DESCRIBE_ENUM(Outcome, succeeded, failed, preempted, signalled, node_lost, not_started, not_admitted)

// JobResult is everything that is known when the launcher ends.
struct JobResult {
    std::string job_id;  // empty if the job never began
    std::string run_id;
    std::string entry_name;
    std::string host;  // of the launcher that writes the file
    int node_rank = 0;
    int nnodes = 1;
    Outcome outcome = Outcome::succeeded;
    int exit_code = 0;
    std::string sentence;  // failure_sentence(); empty: nothing failed
    std::string message;   // one sentence more: Finish::message, or why this node was not admitted
    std::optional<Failure> first_failure;
    // ranks: the end of each rank of the last round, as far as this node was told.
    std::vector<RankEnd> ranks;
    int restart_count = 0;
    int max_restarts = 0;
    std::vector<Restart> restarts;
    int resize_count = 0;
    std::vector<Restart> resizes;
    std::int64_t start_unix_ms = 0;  // of the launcher on this node
    std::int64_t end_unix_ms = 0;
    std::vector<std::string> survivors;
    std::vector<std::string> unknown_nodes;  // see Finish; empty without the coordinator's last word
    int unknown_node_count = 0;
};
BOOST_DESCRIBE_STRUCT(JobResult, (),
                      (job_id, run_id, entry_name, host, node_rank, nnodes, outcome, exit_code, sentence,
                       message, start_unix_ms, end_unix_ms, first_failure, ranks, restart_count, max_restarts,
                       restarts, resize_count, resizes, survivors, unknown_nodes, unknown_node_count))

// Returns the outcome of a job. `cause` is the job's first failure, if there was one; `joined`: a round began
// on this node.
Outcome outcome_of(int exit_code, const std::optional<Failure>& cause, bool joined);

// Returns "succeeded", "node_lost", ...: the names of the enumeration.
std::string_view to_text(Outcome outcome);

// Writes one JSON object and a newline, valid whatever the texts hold. Ranks in order, names in snake_case,
// times as milliseconds since 1970 and as UTC text.
std::string to_json(const JobResult& result);

// Returns why nothing could be written to `path`, as far as that is known before the job, in one line that
// names the flag. An empty path: no file is wanted. For the command line, where a wrong path is bad input.
std::optional<std::string> result_file_complaint(const std::filesystem::path& path);

// Replaces `path` as replace_file does. Returns, if that fails, one line that says why. A job that did not
// fail by itself has then failed with kExitSystem, and `result` says so.
std::optional<std::string> write_result_file(const std::filesystem::path& path, JobResult& result);

}  // namespace launch
}  // namespace ddprun
