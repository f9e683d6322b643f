#include "apps/ddprun/options/option_values.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>

#include "launcher/features/hang_watch.hpp"
#include "launcher/features/time_limit.hpp"
#include "launcher/path_template.hpp"
#include "rendezvous/coordinator/job_options.hpp"
#include "rendezvous/etcd/etcd_options.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {
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

constexpr std::pair<const char*, CountedBy> kCounted[] = {{"auto", CountedBy::automatic},
                                                          {"gpu", CountedBy::gpu},
                                                          {"xpu", CountedBy::xpu},
                                                          {"cpu", CountedBy::cpu}};

// Returns a signal that the workers of all nodes may be sent.
int passable_signal(const std::string& name, const std::string& shown) {
    const int signal = catchable_signal(name, shown);
    if (!may_be_passed_on(signal))
        throw UsageError(fmt::format("{}: {} stops or continues processes and is not passed on; name another",
                                     shown, signal_text(signal)));
    return signal;
}

std::chrono::milliseconds lasting(const std::string& text, const char* wanted) {
    const auto duration = parse_duration(number_text(text));
    if (!duration || duration->count() == 0) throw BadValue(wanted);
    return *duration;
}

// One second is enough for ranks of which all are waiting for a busy machine.
constexpr std::chrono::seconds kLeastHangTimeout{1};

// This is the year 5138, in seconds: later is a typing error, and no sum of milliseconds overflows.
constexpr std::int64_t kLatestEnd = 100'000'000'000;

// Takes torchrun's words.
bool parse_is_host(const std::string& value) {
    const std::string text = boost::algorithm::to_lower_copy(value);
    for (const char* yes : {"1", "true", "t", "yes", "y"}) {
        if (text == yes) return true;
    }
    for (const char* no : {"0", "false", "f", "no", "n"}) {
        if (text == no) return false;
    }
    throw UsageError(fmt::format("--rdzv-conf is_host {}: must be 1 or 0", text));
}

int conf_number(const std::string& key, const std::string& value, int least = 1) {
    try {
        return number(least, kMaxTimeoutSeconds)(value);
    } catch (const BadValue& bad) {
        throw UsageError(fmt::format("--rdzv-conf {} {}: {}", key, value, bad.what()));
    }
}

std::optional<std::chrono::seconds> silence_of(std::optional<int> interval, std::optional<int> attempts) {
    constexpr int kTorchrunsInterval = 5, kTorchrunsAttempts = 3;
    if (!interval && !attempts) return std::nullopt;
    const std::int64_t seconds =
        std::int64_t{interval.value_or(kTorchrunsInterval)} * attempts.value_or(kTorchrunsAttempts);
    if (seconds > kMaxTimeoutSeconds)
        throw UsageError(fmt::format(
            "--rdzv-conf keep_alive_interval times keep_alive_max_attempt: {} s, must be at most {}", seconds,
            kMaxTimeoutSeconds));
    return std::chrono::seconds(seconds);
}

bool parse_is_https(const std::string& value) {
    const std::string protocol = boost::algorithm::to_lower_copy(value);
    if (protocol != "http" && protocol != "https")
        throw UsageError(fmt::format("--rdzv-conf protocol {}: must be http or https", protocol));
    return protocol == "https";
}

// torchrun's two etcd backends name them differently.
NamedFile* tls_file_of(RdzvConf& conf, const std::string& key) {
    if (key == "cacert" || key == "ca_cert") return &conf.tls_files.ca;
    if (key == "cert" || key == "ssl_cert") return &conf.tls_files.cert;
    if (key == "key" || key == "ssl_cert_key") return &conf.tls_files.key;
    return nullptr;
}

// torchrun's c10d has a store in a file, too.
void check_store_type(RdzvConf& conf, const std::string& value) {
    const std::string type = boost::algorithm::to_lower_copy(value);
    if (type != "tcp" && type != "file")
        throw UsageError(fmt::format("--rdzv-conf store_type {}: must be tcp or file", type));
    if (type == "file")
        conf.complaints.emplace_back(
            "--rdzv-conf store_type file: passed over, the store is ddprun's own, over TCP");
}

// Complains of all of them in one line.
void complain_of_unknown(RdzvConf& conf, const std::vector<std::string>& known,
                         const std::vector<std::string>& keys) {
    if (keys.empty()) return;
    std::string names, hints;
    for (const std::string& key : keys) {
        names += (names.empty() ? "" : ", ") + key;
        hints += did_you_mean(key, known);
    }
    conf.complaints.push_back(fmt::format("--rdzv-conf {}: passed over, no such key{}{}", names,
                                          keys.size() == 1 ? "" : "s", hints));
}

// Lists of arguments, which no shell reads, are often copied from a shell's line with its quotes.
std::string unquoted(const std::string& text) {
    const bool is_quoted =
        text.size() > 1 && text.front() == text.back() && (text.front() == '\'' || text.front() == '"');
    return is_quoted ? text.substr(1, text.size() - 2) : text;
}

std::string parse_etcd_prefix(const std::string& text) {
    const auto end = text.find_last_not_of('/');
    if (!text.starts_with('/') || end == text.npos)
        throw UsageError(fmt::format("--rdzv-conf etcd_prefix {}: must be a path like /jobs", text));
    return text.substr(0, end + 1);
}

}  // namespace

NodeCount parse_nnodes(const std::string& text) {
    const auto nodes = number(1, kMaxNodes);
    const auto colon = text.find(':');
    if (colon == std::string::npos) return {nodes(text), {}};
    int low = 0, high = 0;
    try {
        low = nodes(text.substr(0, colon));
        high = nodes(text.substr(colon + 1));
    } catch (const BadValue&) {
    }
    if (high < 1 || high < low) throw BadValue("must be N, or MIN:MAX with 1 <= MIN <= MAX");
    return {high, low == high ? std::nullopt : std::optional(low)};
}

WorkerCount parse_nproc(const std::string& text) {
    const std::string count = number_text(text);
    for (const auto& [name, counted] : kCounted) {
        if (count == name) return counted;
    }
    try {
        return number(0, kMaxWorkersPerNode)(count);
    } catch (const BadValue& bad) {
        throw BadValue(fmt::format("{}, or auto, gpu, xpu or cpu", bad.what()));
    }
}

std::string workers_text(const WorkerCount& count) {
    if (const int* number = std::get_if<int>(&count)) return std::to_string(*number);
    const auto* counted = std::get_if<CountedBy>(&count);
    for (const auto& [name, by] : kCounted) {
        if (counted != nullptr && *counted == by) return name;
    }
    return "a worker for each GPU";
}

std::string parse_master_addr(const std::string& text) {
    const auto endpoint = parse_endpoint(text, 0);
    if (!endpoint || endpoint->port != 0) throw BadValue("must be a name, an IPv4 or an IPv6 address");
    return endpoint->host;
}

RdzvBackend parse_rdzv_backend(const std::string& text) {
    if (text == "etcd-v2") return RdzvBackend::etcd;  // torchrun's name for its younger one
    std::vector<std::pair<std::string, RdzvBackend>> names;
    for (const RdzvBackend backend : {RdzvBackend::fixed, RdzvBackend::c10d, RdzvBackend::etcd})
        names.emplace_back(backend_name(backend), backend);
    return one_of<RdzvBackend>(std::move(names))(text);
}

std::string backend_name(RdzvBackend backend) {
    switch (backend) {
        case RdzvBackend::fixed: return "static";
        case RdzvBackend::c10d: return "c10d";
        case RdzvBackend::etcd: break;
    }
    return "etcd";
}

RdzvEndpoint parse_rdzv_endpoint(const std::string& text) {
    RdzvEndpoint endpoint{.text = text,
                          .of_etcd = parse_etcd_endpoints(text).value_or(std::vector<Endpoint>{})};
    // Only a port that is not said follows the default.
    const auto one = parse_endpoint(text, 1), other = parse_endpoint(text, 2);
    if (!one && endpoint.of_etcd.empty())
        throw BadValue("must be HOST or HOST:PORT; of etcd several, with commas between");
    if (one && text.find(',') == text.npos) endpoint.host = one->host;
    if (one && one->port == other->port) endpoint.port = one->port;
    return endpoint;
}

// `timeout` is the static backend's name for it; torchrun's other keys are known and have no effect.
RdzvConf parse_rdzv_conf(const std::string& conf) {
    static const std::vector<std::string> kKnown = comma_separated(
        "join_timeout,timeout,last_call_timeout,close_timeout,heartbeat_timeout,rank,read_timeout,is_host,"
        "store_type,use_libuv,keep_alive_interval,keep_alive_max_attempt,protocol,ssl_cert,ssl_cert_key,"
        "ca_cert,cert,key,cacert,etcd_prefix");
    RdzvConf known;
    const std::vector<std::string> entries = comma_separated(unquoted(conf));
    if (entries == std::vector<std::string>{""}) return known;
    std::vector<std::string> unknown;
    std::optional<int> interval, attempts;
    for (const std::string& entry : entries) {
        const auto equals = entry.find('=');
        const std::string key = comma_separated(entry.substr(0, equals)).front();
        const std::string value =
            equals == entry.npos ? "" : comma_separated(entry.substr(equals + 1)).front();
        if (key.empty() || value.empty()) throw BadValue("must be KEY=VALUE,KEY=VALUE,…");
        if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) unknown.push_back(key);
        if (key == "store_type") check_store_type(known, value);
        if (key == "protocol") known.is_https = parse_is_https(value);
        if (NamedFile* file = tls_file_of(known, key)) *file = {"--rdzv-conf " + key, value};
        if (key == "etcd_prefix") known.etcd_prefix = parse_etcd_prefix(value);
        if (key == "is_host") known.is_host = parse_is_host(value);
        if (key == "close_timeout" || key == "heartbeat_timeout" || key == "read_timeout")
            conf_number(key, value);
        if (key == "join_timeout" || key == "timeout")
            known.join_timeout = std::chrono::seconds(conf_number(key, value));
        if (key == "keep_alive_interval") interval = conf_number(key, value);
        if (key == "keep_alive_max_attempt") attempts = conf_number(key, value);
        if (key == "last_call_timeout") known.last_call = std::chrono::seconds(conf_number(key, value, 0));
    }
    known.heartbeat = silence_of(interval, attempts);
    complain_of_unknown(known, kKnown, unknown);
    return known;
}

std::vector<int> parse_signals(const std::string& text, std::vector<std::string>& unknown) {
    std::vector<int> signals;
    for (const std::string& name : comma_separated(text)) {
        try {
            signals.push_back(passable_signal(name, name));
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
        forward[received] = passable_signal(equals == entry.npos ? entry : entry.substr(equals + 1), shown);
    }
    return forward;
}

std::set<int> parse_requeue_on(const std::string& text) {
    std::set<int> signals;
    for (const std::string& name : comma_separated(text))
        signals.insert(passable_signal(name, "--requeue-on " + name));
    return signals;
}

StandardInput parse_standard_input(const std::string& text) {
    if (text == "none") return {};
    if (text == "all") return {.all = true};
    const auto rank = whole_number<int>(text, 0, kMaxRank);
    if (!rank) throw BadValue("must be a rank, all or none");
    return {.rank = rank};
}

std::string parse_legacy_launch(const std::string& text) {
    if (text.empty()) return "--local-rank";
    return "--" + one_of<std::string>({{"local-rank", "local-rank"}, {"local_rank", "local_rank"}})(text);
}

void parse_time_limit(const std::string& text, TimeLimitOptions& times) {
    times.limit = lasting(text, "must be a duration longer than 0, like 90s or 2h");
    times.limit_text = text;
}

void parse_warn_before(const std::string& text, TimeLimitOptions& times) {
    const auto colon = text.find(':');
    times.warn_before =
        lasting(text.substr(0, colon), "must be S or S:SIGNAL like 120s:USR1, S longer than 0");
    if (colon != text.npos)
        times.warn_signal = passable_signal(text.substr(colon + 1), "--warn-before " + text);
    times.warn_text = text;
}

std::optional<std::int64_t> parse_scheduler_end(const std::string& text) {
    const auto seconds = whole_number<std::int64_t>(text, 1, kLatestEnd);
    return seconds ? std::optional(*seconds * 1000) : std::nullopt;
}

ExitWaitOptions parse_exit_wait(const std::string& text) {
    const auto colon = text.find(':');
    const auto wait = parse_duration(text.substr(0, colon));
    const bool kill = colon != text.npos;
    if (!wait || (kill && text.substr(colon) != ":kill"))
        throw BadValue("must be S or S:kill, like 30s:kill");
    return {.wait = *wait, .kill = kill, .text = text};
}

void parse_hang_timeout(const std::string& text, HangWatchOptions& watch) {
    constexpr std::pair<std::string_view, HangAction> kActions[] = {{"", HangAction::report},
                                                                    {":report", HangAction::report},
                                                                    {":stop", HangAction::stop},
                                                                    {":restart", HangAction::restart}};
    const auto colon = std::min(text.find(':'), text.size());
    const auto limit = parse_duration(text.substr(0, colon));
    const auto action = std::find_if(std::begin(kActions), std::end(kActions),
                                     [&](const auto& one) { return one.first == text.substr(colon); });
    if (!limit || *limit < kLeastHangTimeout || action == std::end(kActions))
        throw BadValue("must be S, S:report, S:stop or S:restart, like 300:stop, S at least 1 s");
    watch.limit = limit;
    watch.action = action->second;
    watch.text = text.substr(0, colon);
}

std::chrono::milliseconds parse_hang_start(const std::string& text) {
    const auto limit = parse_duration(text);
    if (!limit || *limit < kLeastHangTimeout) throw BadValue("must be a time of at least 1 s, like 30m");
    return *limit;
}

std::string path_text(const std::string& text) {
    if (const auto wrong = path_complaint(text)) throw BadValue(*wrong);
    return text;
}

int parse_same_failure(const std::string& text) {
    const int failures = number(0, kMaxRestarts)(text);
    if (failures == 1)
        throw BadValue("no failure is the same as another after one; --max-restarts 0 restarts nothing");
    return failures;
}

std::pair<std::chrono::milliseconds, std::chrono::milliseconds> parse_backoff(const std::string& text) {
    const auto dots = text.find("..");
    const auto low = parse_duration(text.substr(0, dots));
    const auto high = dots == text.npos ? low : parse_duration(text.substr(dots + 2));
    if (!low || !high || *high < *low) throw BadValue("must be MIN..MAX like 1s..5m, with MIN <= MAX");
    return {*low, *high};
}

}  // namespace app
}  // namespace ddprun
