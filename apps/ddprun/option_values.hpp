// The grammars of ddprun's option values: text in, value out, UsageError for anything else. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// Bad input: what() is one line that names the flag and the value. main prints it and ends with kExitUsage.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// The largest values taken; beyond them a number is a typing error.
inline constexpr int kMaxNodes = 100'000;
inline constexpr int kMaxTimeoutSeconds = 10'000'000;
inline constexpr int kMaxRestarts = 1'000'000;
inline constexpr int kMaxRank = 100'000'000;

// A whole number from `low` to `high`.
int bounded(const std::string& flag, const std::string& text, int low, int high);

// `N`, or `N:N`; a real range is refused.
int parse_nnodes(const std::string& text);

// A number of workers, or auto, gpu, cpu, which are returned as they are.
std::string parse_nproc(const std::string& text);

// The join timeout out of `KEY=VALUE,…`, else `join_timeout`.
int parse_rdzv_conf(const std::string& conf, int join_timeout);

// `SIGTERM,INT,…`. A name that is none is passed over and put into `unknown`, as torchrun does.
std::vector<int> parse_signals(const std::string& text, std::vector<std::string>& unknown);

// `USR1,USR2=TERM`: signal received -> signal sent to the workers.
std::map<int, int> parse_forward(const std::string& text);

// `USR1,USR2`: signals, none of which may be among those that end the job.
std::set<int> parse_requeue_on(const std::string& text, const std::vector<int>& terminating);

// `1s..5m`, or one duration for both ends.
std::pair<std::chrono::milliseconds, std::chrono::milliseconds> parse_backoff(const std::string& text);

// The entry of `candidates` nearest to `word`, if it is near enough to be what was meant.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ddprun
