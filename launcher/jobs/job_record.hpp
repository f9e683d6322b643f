// The folder of a detached job says this about it: job.json at the start, result.json at the end. Pure.
//
// job.json is a JobRecord; result.json is what --result-file writes (launcher/report/result_file.hpp), of which a
// JobEnd is the part that lists need.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/job/agent_status.hpp"

namespace ddprun::inline launch {

// How much of a command line is recorded; the words behind it are replaced by "...".
inline constexpr std::size_t kMaxCommandBytes = 64 * 1024;

struct JobRecord {
    std::string id;  // the name of the folder, what ddpctl takes
    std::string job_id;
    std::string entry_name;
    std::string directory;             // where it was started
    std::vector<std::string> command;  // the launcher's command line
    int node_rank = 0;
    int nnodes = 1;
    int workers = 0;  // on this node
    // The launcher's process: the pid alone may be another one's by now.
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
    std::string message;
    std::int64_t end_unix_ms = 0;
    int restart_count = 0;
    int max_restarts = 0;
    std::vector<WorkerStatus> workers;  // of this node, in the last round
};
BOOST_DESCRIBE_STRUCT(JobEnd, (),
                      (exit_code, outcome, message, end_unix_ms, restart_count, max_restarts, workers))

std::string to_json(const JobRecord& record);

// They return nothing for a text that is no such record.
std::optional<JobRecord> parse_job_record(std::string_view text);
std::optional<JobEnd> parse_job_end(std::string_view text);

// The name of a job's folder: its id without what may not stand in a file name or on a terminal, and where
// there are more nodes the node's number behind a dot. The end of a long id is kept: it is what differs.
std::string job_folder_name(std::string_view job_id, int node_rank, int nnodes);

}  // namespace ddprun::inline launch
