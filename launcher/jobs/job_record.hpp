// JobRecord and JobEnd: what a job's folder says of the job. Pure.
//
// job.json, written at the start, is a JobRecord; result.json, at the end, is what --result-file writes
// (launcher/report/result_file.hpp), and a JobEnd is the part of it that lists need.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

// kMaxCommandBytes: how many bytes of a command line are recorded; the words behind them are replaced by
// "...".
inline constexpr std::size_t kMaxCommandBytes = 64 * 1024;

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
std::string job_name(std::string_view program, std::string_view job_id);
inline constexpr std::size_t kMaxJobName = 24;
inline constexpr std::size_t kNameSigns = 4;

}  // namespace launch
}  // namespace ddprun
