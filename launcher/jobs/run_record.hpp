// RunRecord: run.json, which says what a launcher was started with, for people: its words and the names of
// its variables, no secrets. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

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
