// run.json says what a launcher was started with, enough to start it again (`ddpctl rerun`): its words, and its environment
// without secrets. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

inline constexpr std::string_view kRunFile = "run.json";
// The file is at most so large: the kernel takes 2 MiB of arguments and environment by default, and JSON needs six bytes for one of some.
inline constexpr std::size_t kMaxRunFile = 16 * 1024 * 1024;

struct RunRecord {
    // The file that was executed, by what name, and with which words, byte for byte if `is_exact`.
    std::string program;
    std::string called;
    std::vector<std::string> words;
    bool is_exact = true;  // false: a word, a value or a path is or was no UTF-8, which JSON cannot hold
    std::string directory;
    Environment environment;  // without_secrets()
    std::string version;
    std::string host;
    std::int64_t start_unix_ms = 0;
    std::optional<std::string> job_id;  // RoundReady's; versions before had none
    int node_rank = 0;                  // in the first round of this node
    bool operator==(const RunRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(RunRecord, (),
                      (program, called, words, is_exact, directory, environment, version, host, start_unix_ms,
                       job_id, node_rank))

std::string to_json(const RunRecord& record);

// Returns nothing for a text that is no such record.
std::optional<RunRecord> parse_run_record(std::string_view text);

// Finds the newest run, by its place in the list, which is not empty: the record of its node 0, else that of `host`.
std::size_t newest_run(const std::vector<RunRecord>& records, const std::string& host);

// What is recorded of an environment: all but secrets.
Environment without_secrets(Environment environment);

// The environment to start it again with: the recorded one, and of `own` its secrets, and which job's worker this is.
Environment as_recorded(const Environment& own, Environment recorded);

}  // namespace ddprun::inline launch
