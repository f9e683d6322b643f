#include "apps/ddprun/option_values.hpp"

#include <signal.h>

#include <algorithm>

#include "rendezvous/coordinator/admission.hpp"
#include "rendezvous/coordinator/restart_policy.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun {
namespace {

// `shown` is what the error calls it.
int known_signal(const std::string& name, const std::string& shown) {
    const auto signal = parse_signal(name);
    if (!signal) throw UsageError(shown + ": no such signal");
    return *signal;
}

int catchable_signal(const std::string& name, const std::string& shown) {
    const int signal = known_signal(name, shown);
    if (signal == SIGKILL || signal == SIGSTOP) throw UsageError(shown + ": this signal cannot be caught");
    return signal;
}

}  // namespace

int parse_nnodes(const std::string& text) {
    const auto nodes = number(1, kMaxNodes);
    const auto colon = text.find(':');
    if (colon == std::string::npos) return nodes(text);
    int low = 0, high = 0;
    try {
        low = nodes(text.substr(0, colon));
        high = nodes(text.substr(colon + 1));
    } catch (const BadValue&) {
    }
    if (high < 1 || high < low) throw BadValue("must be N, or MIN:MAX with 1 <= MIN <= MAX");
    if (low != high) throw BadValue("a changing number of nodes is not supported; give one number");
    return high;
}

std::string parse_nproc(const std::string& text) {
    if (text == "auto" || text == "gpu" || text == "cpu") return text;
    try {
        number(1, kMaxWorkersPerNode)(text);
    } catch (const BadValue& bad) {
        throw BadValue(std::string(bad.what()) + ", or auto, gpu or cpu");
    }
    return text;
}

std::string parse_master_addr(const std::string& text) {
    const auto endpoint = parse_endpoint(text, 0);
    if (!endpoint || endpoint->port != 0) throw BadValue("must be a name, an IPv4 or an IPv6 address");
    return endpoint->host;
}

void check_rdzv_backend(const std::string& text) {
    if (text != "static") throw BadValue("only static is supported");
}

std::string check_rdzv_endpoint(const std::string& text) {
    if (!parse_endpoint(text, 0)) throw BadValue("must be HOST or HOST:PORT");
    return text;
}

// `timeout` is the static backend's name for it; torchrun's other keys are known and have no effect.
std::optional<std::chrono::seconds> parse_rdzv_conf(const std::string& conf) {
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
    std::optional<std::chrono::seconds> join_timeout;
    for (const std::string& entry : comma_separated(conf)) {
        const auto equals = entry.find('=');
        const std::string key = comma_separated(entry.substr(0, equals)).front();
        const std::string value =
            equals == entry.npos ? "" : comma_separated(entry.substr(equals + 1)).front();
        if (key.empty() || value.empty()) throw BadValue("must be KEY=VALUE,KEY=VALUE,…");
        if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) {
            const auto meant = nearest(key, kKnown);
            throw UsageError("--rdzv-conf " + key + ": no such key" +
                             (meant ? "; did you mean " + *meant + "?" : ""));
        }
        if (key != "join_timeout" && key != "timeout") continue;
        try {
            join_timeout = std::chrono::seconds(number(1, kMaxTimeoutSeconds)(value));
        } catch (const BadValue& bad) {
            throw UsageError("--rdzv-conf " + key + " " + value + ": " + bad.what());
        }
    }
    return join_timeout;
}

std::vector<int> parse_signals(const std::string& text, std::vector<std::string>& unknown) {
    std::vector<int> signals;
    for (const std::string& name : comma_separated(text)) {
        try {
            signals.push_back(catchable_signal(name, name));
        } catch (const UsageError&) {
            unknown.push_back(name);
        }
    }
    return signals;
}

std::map<int, int> parse_forward(const std::string& text) {
    std::map<int, int> forward;
    for (const std::string& entry : comma_separated(text)) {
        const std::string shown = "--forward " + entry;
        const auto equals = entry.find('=');
        const int received = catchable_signal(entry.substr(0, equals), shown);
        forward[received] = equals == entry.npos ? received : known_signal(entry.substr(equals + 1), shown);
    }
    return forward;
}

std::set<int> parse_requeue_on(const std::string& text) {
    std::set<int> signals;
    for (const std::string& name : comma_separated(text))
        signals.insert(catchable_signal(name, "--requeue-on " + name));
    return signals;
}

std::pair<std::chrono::milliseconds, std::chrono::milliseconds> parse_backoff(const std::string& text) {
    const auto dots = text.find("..");
    const auto low = parse_duration(text.substr(0, dots));
    const auto high = dots == text.npos ? low : parse_duration(text.substr(dots + 2));
    if (!low || !high || *high < *low) throw BadValue("must be MIN..MAX like 1s..5m, with MIN <= MAX");
    return {*low, *high};
}

}  // namespace ddprun
