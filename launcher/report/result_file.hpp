// JobResult: the result file (--result-file), which has the whole truth about a job as one JSON object, for
// programs that started it. Pure but for result_file_complaint and write_result_file.
// apps/ddprun/manual/files.md lists the members.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace launch {

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
