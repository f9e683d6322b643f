#include "apps/ddprun/option_values.hpp"

#include <signal.h>

#include <CLI/StringTools.hpp>
#include <algorithm>
#include <charconv>
#include <numeric>

#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/restart_policy.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
namespace {

std::optional<int> whole_number(std::string_view text) {
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// Neither can be caught.
bool can_be_caught(int signal) { return signal != SIGKILL && signal != SIGSTOP; }

int parse_one_signal(const std::string& flag, const std::string& text) {
    auto signal = parse_signal(text);
    if (!signal) throw UsageError(flag + " " + text + ": no such signal");
    return *signal;
}

}  // namespace

int bounded(const std::string& flag, const std::string& text, int low, int high) {
    auto value = whole_number(text);
    if (!value || *value < low || *value > high) {
        throw UsageError(flag + " " + text + ": must be a whole number from " + std::to_string(low) + " to " +
                         std::to_string(high));
    }
    return *value;
}

int parse_nnodes(const std::string& text) {
    auto colon = text.find(':');
    if (colon == std::string::npos) return bounded("--nnodes", text, 1, kMaxNodes);
    auto low = whole_number(text.substr(0, colon)), high = whole_number(text.substr(colon + 1));
    if (!low || !high || *low < 1 || *high < *low || *high > kMaxNodes) {
        throw UsageError("--nnodes " + text + ": must be N, or MIN:MAX with 1 <= MIN <= MAX");
    }
    if (*low != *high)
        throw UsageError("--nnodes " + text +
                         ": a changing number of nodes is not supported; give one number");
    return *high;
}

std::string parse_nproc(const std::string& text) {
    if (text == "auto" || text == "gpu" || text == "cpu") return text;
    if (!whole_number(text))
        throw UsageError("--nproc-per-node " + text + ": must be a number, auto, gpu or cpu");
    bounded("--nproc-per-node", text, 1, kMaxWorkersPerNode);
    return text;
}

// `timeout` is the static backend's name for it; torchrun's other keys are known and have no effect.
int parse_rdzv_conf(const std::string& conf, int join_timeout) {
    static const std::vector<std::string> kKnown = {"join_timeout",
                                                    "timeout",
                                                    "last_call_timeout",
                                                    "close_timeout",
                                                    "heartbeat_timeout",
                                                    "rank",
                                                    "read_timeout",
                                                    "is_host",
                                                    "store_type",
                                                    "keep_alive_interval",
                                                    "keep_alive_max_attempt"};
    if (conf.empty()) return join_timeout;
    for (const std::string& entry : CLI::detail::split(conf, ',')) {
        auto equals = entry.find('=');
        std::string key = CLI::detail::trim_copy(entry.substr(0, equals));
        std::string value =
            equals == std::string::npos ? "" : CLI::detail::trim_copy(entry.substr(equals + 1));
        if (key.empty() || value.empty())
            throw UsageError("--rdzv-conf " + conf + ": must be KEY=VALUE,KEY=VALUE,…");
        if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) {
            auto meant = nearest(key, kKnown);
            throw UsageError("--rdzv-conf " + key + ": no such key" +
                             (meant ? "; did you mean " + *meant + "?" : ""));
        }
        if (key == "join_timeout" || key == "timeout") {
            join_timeout = bounded("--rdzv-conf " + key, value, 1, kMaxTimeoutSeconds);
        }
    }
    return join_timeout;
}

std::vector<int> parse_signals(const std::string& text, std::vector<std::string>& unknown) {
    std::vector<int> signals;
    for (const std::string& name : CLI::detail::split(text, ',')) {
        auto signal = parse_signal(CLI::detail::trim_copy(name));
        if (signal && can_be_caught(*signal)) {
            signals.push_back(*signal);
        } else {
            unknown.push_back(name);
        }
    }
    return signals;
}

std::map<int, int> parse_forward(const std::string& text) {
    std::map<int, int> forward;
    if (text.empty()) return forward;
    for (const std::string& entry : CLI::detail::split(text, ',')) {
        const auto equals = entry.find('=');
        const int received = parse_one_signal("--forward", entry.substr(0, equals));
        if (!can_be_caught(received))
            throw UsageError("--forward " + entry + ": this signal cannot be caught");
        forward[received] =
            equals == entry.npos ? received : parse_one_signal("--forward", entry.substr(equals + 1));
    }
    return forward;
}

std::set<int> parse_requeue_on(const std::string& text, const std::vector<int>& terminating) {
    std::set<int> signals;
    if (text.empty()) return signals;
    for (const std::string& entry : CLI::detail::split(text, ',')) {
        const std::string name = CLI::detail::trim_copy(entry);
        const int signal = parse_one_signal("--requeue-on", name);
        if (!can_be_caught(signal))
            throw UsageError("--requeue-on " + name + ": this signal cannot be caught");
        if (std::find(terminating.begin(), terminating.end(), signal) != terminating.end()) {
            throw UsageError("--requeue-on " + name + ": contradicts --signals-to-handle, by which " +
                             signal_text(signal) + " ends the job");
        }
        signals.insert(signal);
    }
    return signals;
}

std::pair<std::chrono::milliseconds, std::chrono::milliseconds> parse_backoff(const std::string& text) {
    const auto dots = text.find("..");
    auto low = parse_duration(text.substr(0, dots));
    auto high = dots == text.npos ? low : parse_duration(text.substr(dots + 2));
    if (!low || !high || *high < *low) {
        throw UsageError("--backoff " + text + ": must be MIN..MAX like 1s..5m, with MIN <= MAX");
    }
    return {*low, *high};
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
    std::optional<std::string> best;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (const std::string& candidate : candidates) {
        // Levenshtein distance, one row at a time.
        std::vector<std::size_t> row(candidate.size() + 1);
        std::iota(row.begin(), row.end(), std::size_t{0});
        for (std::size_t i = 1; i <= word.size(); ++i) {
            std::size_t diagonal = std::exchange(row[0], i);
            for (std::size_t j = 1; j <= candidate.size(); ++j) {
                const std::size_t replaced = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
                diagonal = row[j];
                row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
            }
        }
        if (row.back() < best_distance) {
            best_distance = row.back();
            best = candidate;
        }
    }
    return best;
}

}  // namespace ddprun
