// run.json says what a launcher was started with, enough to start it again (`ddpctl rerun`), and which variables of its
// environment decide what it does, so that the file keeps them. Pure.
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
    Environment environment;  // deciding_variables()
    std::string version;
    std::string host;
    std::int64_t start_unix_ms = 0;
    // These tell what came of it.
    std::string run_id;
    std::optional<std::string> job_id;  // RoundReady's; versions before had none
    int nnodes = 1;
    int node_rank = 0;  // in the first round of this node
    int workers = 0;    // of this node
    std::string master_addr;
    int master_port = 0;  // 0: a free one
    bool operator==(const RunRecord&) const = default;
};
BOOST_DESCRIBE_STRUCT(RunRecord, (),
                      (program, called, words, is_exact, directory, environment, version, host, start_unix_ms,
                       run_id, job_id, nnodes, node_rank, workers, master_addr, master_port))

std::string to_json(const RunRecord& record);

// Returns nothing for a text that is no such record.
std::optional<RunRecord> parse_run_record(std::string_view text);

// Finds the newest run, by its place in the list, which is not empty: the record of its node 0, else that of `host`.
std::size_t newest_run(const std::vector<RunRecord>& records, const std::string& host);

// Options (DDPRUN_*, PET_*), GPU masks, MASTER_ADDR and the like, Python and its environment, and what schedulers, process
// launchers and platforms tell.
bool is_deciding(std::string_view name);

// Those of the environment that decide and are no secrets. What the worker of an outer job was told by its own launcher is
// none of it; in there nothing but options, masks and Python decide.
Environment deciding_variables(const Environment& environment);

// `own` with what was recorded laid over it. What decides, too, but was not there then is taken out, so that the
// variables of two jobs are never mixed; secrets stay.
Environment as_recorded(Environment own, const Environment& recorded);

}  // namespace ddprun::inline launch
