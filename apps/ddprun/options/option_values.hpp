// parse_nnodes() and the grammars here are those that only options of ddprun have: text in, value out. Pure.
// Grammars throw BadValue, or UsageError where the error names a part of the value in place of the whole.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "apps/cli/option_values.hpp"
#include "launcher/agent/launch_options.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
inline namespace launch {
struct HangWatchOptions;
struct TimeLimitOptions;
}  // namespace launch
}  // namespace ddprun

namespace ddprun {
inline namespace app {

// kMaxTimeoutSeconds and the next: the largest values taken; a larger number is a typing error.
inline constexpr int kMaxTimeoutSeconds = 10'000'000;
inline constexpr int kMaxRestarts = 1'000'000;
inline constexpr int kMaxRank = 100'000'000;

// NodeCount: `N` or `MIN:MAX`: the most, and the least where it is another number.
struct NodeCount {
    int most = 1;
    std::optional<int> least;
};
NodeCount parse_nnodes(const std::string& text);

// kDefaultMasterPort and the next: the ports where nodes meet unless the user names another.
inline constexpr std::uint16_t kDefaultMasterPort = 29500;  // torchrun's …
inline constexpr std::uint16_t kDefaultC10dPort = 29400;    // … and that of its c10d backend

// CountedBy: what a node's workers are counted by where no number is said.
enum class CountedBy { automatic, gpu, xpu, cpu };
// ForEachGpu: a worker for each GPU of the node, or so many where it has none. A scheduler's, which no user
// says.
struct ForEachGpu {
    int otherwise = 1;

    bool operator==(const ForEachGpu&) const = default;
};
using WorkerCount = std::variant<int, CountedBy, ForEachGpu>;
WorkerCount parse_nproc(const std::string& text);
// Returns the count as --nproc-per-node takes it, or what ForEachGpu is in words.
std::string workers_text(const WorkerCount& count);

// Takes a host without a port.
std::string parse_master_addr(const std::string& text);

// RdzvBackend says how nodes find each other, and whether they find their numbers by themselves.
enum class RdzvBackend {
    fixed,  // static, to torchrun: nodes are numbered by --node-rank
    c10d,   // the endpoint says which node hosts
    etcd,   // etcd at the endpoint does
};
RdzvBackend parse_rdzv_backend(const std::string& text);
// Returns the backend's name as torchrun says it.
std::string backend_name(RdzvBackend backend);

// RdzvEndpoint: where the nodes meet, or where etcd is.
struct RdzvEndpoint {
    std::string text;                   // empty: not said
    std::string host;                   // of the only one; empty: there are several
    std::optional<std::uint16_t> port;  // if it is said, which may be 0
    std::vector<Endpoint> of_etcd;      // with etcd's own port where none is said; empty: none of etcd's

    bool is_said() const { return !text.empty(); }
};
RdzvEndpoint parse_rdzv_endpoint(const std::string& text);

// RdzvConf is what of `KEY=VALUE,…` has an effect. Unknown keys are passed over, as torchrun does; a line
// says so.
struct RdzvConf {
    std::optional<std::chrono::seconds> join_timeout;
    std::optional<std::chrono::seconds> last_call;
    std::optional<std::chrono::seconds> heartbeat;  // all attempts of keep_alive_max_attempt
    std::optional<bool> is_host;
    std::optional<std::string> etcd_prefix;
    bool is_https = false;
    TlsFiles tls_files;  // as given, also without https
    std::vector<std::string> complaints;
};
RdzvConf parse_rdzv_conf(const std::string& conf);

// Takes `SIGTERM,INT,…`. A name of no signal is passed over and put into `unknown`, as torchrun does.
std::vector<int> parse_signals(const std::string& text, std::vector<std::string>& unknown);

// Takes `USR1,USR2=TERM`: signal received -> signal sent to the workers.
std::map<int, int> parse_forward(const std::string& text);

// Takes `USR1,USR2`: signals that can be caught.
std::set<int> parse_requeue_on(const std::string& text);

// Takes a global rank, `all` or `none`.
StandardInput parse_standard_input(const std::string& text);

// OmpThreads says what decides how many threads a library like OpenMP's takes.
enum class OmpThreads {
    cpus,  // the node's usable CPUs by its workers
    one,   // 1 where there are several workers
    none,  // not decided here
};

// Takes the name of the argument by which a program is told its local rank; none is empty.
std::string parse_legacy_launch(const std::string& text);

// Takes a duration longer than 0.
void parse_time_limit(const std::string& text, TimeLimitOptions& times);

// Takes `120`, or `120:TERM`: so long before the limit, and by which signal.
void parse_warn_before(const std::string& text, TimeLimitOptions& times);

// Reads SLURM_JOB_END_TIME: seconds since 1970. Nothing for another text.
std::optional<std::int64_t> parse_scheduler_end(const std::string& text);

// Takes `30`, or `30:kill`.
ExitWaitOptions parse_exit_wait(const std::string& text);

// Takes `30`, `30:report`, `30:stop` or `30:restart`, at least 1 s.
void parse_hang_timeout(const std::string& text, HangWatchOptions& watch);

// Takes a time of at least 1 s.
std::chrono::milliseconds parse_hang_start(const std::string& text);

// Takes a path with signs as path_template.hpp has them, or without any; returns the text itself.
std::string path_text(const std::string& text);

// Takes a number of failures, from two on; 0: none.
int parse_same_failure(const std::string& text);

// Takes `1s..5m`, or one duration for both ends.
std::pair<std::chrono::milliseconds, std::chrono::milliseconds> parse_backoff(const std::string& text);

}  // namespace app
}  // namespace ddprun
