// The whole front door of ddprun: words, variables and a configuration file in, values out. Every option by
// every source.
#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "apps/ddprun/options/command_line.hpp"
#include "apps/ddprun/options/job_options.hpp"
#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/features/event_log.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/features/hang_watch.hpp"
#include "launcher/features/local_cache.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/time_limit.hpp"
#include "tests/apps/config_text.hpp"
#include "tests/apps/refused_values.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

std::string text(const std::string& value) { return value; }
std::string text(std::uint64_t value) { return std::to_string(value); }
std::string text(const PortRange& range) { return to_string(range); }
std::string text(bool value) { return value ? "yes" : "no"; }
std::string text(int value) { return std::to_string(value); }
std::string text(std::chrono::milliseconds value) { return std::to_string(value.count()); }
std::string text(const std::vector<int>& values) {
    std::string all;
    for (const int value : values) all += std::to_string(value) + " ";
    return all;
}
std::string text(const std::vector<CodeRange>& ranges) {
    std::string all;
    for (const CodeRange& range : ranges)
        all += std::to_string(range.first) + "-" + std::to_string(range.last) + " ";
    return all;
}
std::string text(const ExitWaitOptions& wait) {
    return std::to_string(wait.wait.count()) + " " + wait.text + (wait.kill ? " kills" : "");
}
std::string text(const LinePrefix& prefix) {
    return prefix.with({"h", "default", "stdout", 5, 1}).render("NOW");
}
template <class Value>
std::string text(const std::optional<Value>& value) {
    return value ? text(*value) : "none";
}
std::string text(const WorkerCount& value) { return workers_text(value); }
std::string text(Auth value) { return value == Auth::required ? "required" : "another"; }
std::string text(GpuBind value) { return value == GpuBind::all ? "all" : "another"; }
std::string text(CpuBind value) {
    if (value == CpuBind::core_complex) return "core-complex";
    return value == CpuBind::cores ? "cores" : "another";
}
std::string text(RdzvBackend value) { return value == RdzvBackend::c10d ? "c10d" : "another"; }
std::string text(OmpThreads value) { return value == OmpThreads::one ? "one" : "another"; }
std::string text(const StandardInput& input) {
    return input.all ? "all" : input.rank ? std::to_string(*input.rank) : "none";
}
std::string text(Resize value) { return value == Resize::never ? "never" : "another"; }
std::string text(StoreAccess value) { return value == StoreAccess::direct ? "direct" : "another"; }
std::string text(SignalScope value) { return value == SignalScope::group ? "group" : "another"; }
std::string text(Verbosity value) { return value == Verbosity::quiet ? "quiet" : "verbose"; }
std::string text(const std::map<int, int>& signals) {
    std::string all;
    for (const auto& [from, to] : signals) all += std::to_string(from) + "=" + std::to_string(to) + " ";
    return all;
}
std::string text(const std::vector<Wrap>& wraps) {
    std::string all;
    for (const Wrap& wrap : wraps) {
        for (const std::string& word : wrap.words) all += word + ";";
    }
    return all;
}
std::string text(const StreamChoice& choice) {
    return choice.beyond(0).value_or(std::to_string(choice.everywhere));
}
std::string text(const RankSet& ranks) { return ranks.beyond(0).value_or("all"); }
std::string text(const std::vector<std::string>& values) {
    std::string all;
    for (const std::string& value : values) all += value + ";";
    return all;
}

std::string text(const Variables& variables) {
    std::string all;
    for (const auto& [name, value] : variables) all += name + "=" + value + ";";
    return all;
}
std::string text(const std::vector<RankVariable>& variables) {
    std::string all;
    for (const RankVariable& one : variables) all += text(one.ranks) + ":" + one.name + "=" + one.value + ";";
    return all;
}

using Seen = std::function<std::string(const Said&)>;

template <class Owner, class Value>
Seen at(Value Owner::*member) {
    return [member](const Said& line) { return text(line.*member); };
}
template <class Owner, class Part, class Value>
Seen at(Part Owner::*part, Value Part::*member) {
    return [part, member](const Said& line) { return text(line.*part.*member); };
}

template <class Options, class Value>
Seen of_feature(Value Options::*member) {
    return [member](const Said& line) { return text(line.features.of<Options>().*member); };
}

struct Row {
    std::string name;   // without dashes
    std::string value;  // "": a flag
    Seen seen;          // in the result
    std::string expected;
};

const std::vector<Row> kRows = {
    {"nnodes", "3", at(&Said::nnodes), "3"},
    {"spares", "0", at(&LaunchOptions::elasticity, &Elasticity::spares), "0"},
    {"resize", "never", at(&LaunchOptions::elasticity, &Elasticity::resize), "never"},
    {"failover", "off", at(&LaunchOptions::failover), "no"},
    {"last-call", "7", at(&LaunchOptions::elasticity, &Elasticity::last_call), "7000"},
    {"node-rank", "1", at(&Said::node_rank), "1"},
    {"nproc-per-node", "gpu", at(&Said::nproc_per_node), "gpu"},
    {"master-addr", "[::1]", at(&Said::master_addr), "::1"},
    {"master-port", "1234", at(&Said::master_port), "1234"},
    {"local-addr", "[::1]", at(&Said::local_addr), "::1"},
    {"listen", "any", at(&Said::listen_any), "yes"},
    {"net", "10.0.0.0/8", at(&Said::networks), "10.0.0.0/8"},
    {"port-range", "30000-30100", at(&LaunchOptions::port_range), "30000-30100"},
    {"standalone", "", at(&Said::standalone), "yes"},
    {"scheduler", "slurm", at(&Said::scheduler), "slurm"},
    {"adapt", "", at(&Said::adapt), "yes"},
    {"rdzv-backend", "c10d", at(&Said::rdzv_backend), "c10d"},
    {"rdzv-endpoint", "h:7", at(&Said::master_port), "7"},
    {"rdzv-id", "job", at(&Said::run_id), "job"},
    {"allow-different", "", at(&Said::allow_different), "yes"},
    {"join-timeout", "7", at(&Said::join_timeout), "7000"},
    {"strict-env", "", at(&Said::strict_env), "yes"},
    {"secret-file", "/a/secret", at(&Said::secret_file), "/a/secret"},
    {"auth", "required", at(&Said::auth), "required"},
    {"store", "direct", at(&Said::store_access), "direct"},
    {"make-secret", "", at(&Said::makes_secret), "yes"},
    {"rdzv-conf", "join_timeout=7,rank=0", at(&Said::join_timeout), "7000"},
    {"module", "", at(&Said::module), "yes"},
    {"no-python", "", at(&Said::no_python), "yes"},
    {"python", "", at(&Said::python), "yes"},
    {"run-path", "", at(&Said::run_path), "yes"},
    {"stdin", "3", at(&Said::standard_input), "3"},
    {"program", "0:a b", at(&Said::rank_programs), "a;b;"},
    {"local-cache", "", of_feature(&LocalCacheOptions::asked), "yes"},
    {"role", "chief of staff", at(&Said::role), "chief of staff"},
    {"gpu-bind", "all", at(&Said::gpu_bind), "all"},
    {"share-gpus", "", at(&Said::share_gpus), "yes"},
    {"virtual-local-rank", "", at(&Said::virtual_local_rank), "yes"},
    {"bind", "cores", at(&Said::cpu_bind), "cores"},
    {"numa-binding", "core-complex", at(&Said::cpu_bind), "core-complex"},
    {"rank-order", "topology", at(&Said::rank_order_by), "topology"},
    {"dry-run", "", at(&Said::dry_run), "yes"},
    {"check", "", of_feature(&NodeCheckOptions::asked), "yes"},
    {"explain", "", at(&Said::explain), "yes"},
    {"json", "", at(&Said::json), "yes"},
    {"like-torchrun", "", at(&Said::like_torchrun), "yes"},
    {"exit-codes", "one", at(&Said::exits_with_one), "yes"},
    {"omp-threads", "one", at(&Said::omp_threads), "one"},
    {"legacy-launch", "local_rank", at(&Said::legacy_launch), "--local_rank"},
    {"use-env", "", at(&Said::use_env), "yes"},
    {"start-method", "fork", at(&Said::nnodes), "1"},
    {"exit-barrier-timeout", "0.5", at(&Said::nnodes), "1"},
    {"event-log-handler", "console", at(&Said::nnodes), "1"},
    {"logs-specs", "default", at(&Said::nnodes), "1"},
    {"heartbeat", "7", at(&Said::heartbeat), "7000"},
    {"shutdown-timeout", "5", at(&Said::grace_period), "5000"},
    {"lost-grace", "3", at(&Said::lost_grace), "3000"},
    {"signals-to-handle", "TERM,USR1", at(&Said::terminating_signals), "15 10 "},
    {"forward", "USR1=USR2", at(&Said::forwarded_signals), "10=12 "},
    {"requeue-on", "USR1", at(&Said::forwarded_signals), "10=10 "},
    {"signal-scope", "group", at(&Said::signal_scope), "group"},
    {"detach", "", at(&Said::detach), "yes"},
    {"time-limit", "2h", of_feature(&TimeLimitOptions::limit), "7200000"},
    {"warn-before", "90:TERM", of_feature(&TimeLimitOptions::warn_signal), "15"},
    {"exit-wait", "1.5s:kill", at(&Said::exit_wait), "1500 1.5s:kill kills"},
    {"hang-timeout", "2m:restart", of_feature(&HangWatchOptions::limit), "120000"},
    {"hang-start-timeout", "1h", of_feature(&HangWatchOptions::start), "3600000"},
    {"max-restarts", "4", at(&Said::restarts, &RestartOptions::max_restarts), "4"},
    {"restart-on", "1,64-78", at(&Said::restarts, &RestartOptions::restart_on), "1-1 64-78 "},
    {"no-restart-on", "2", at(&Said::restarts, &RestartOptions::no_restart_on), "2-2 "},
    {"backoff", "1s..5m", at(&Said::restarts, &RestartOptions::backoff_max), "300000"},
    {"min-uptime", "2m", at(&Said::restarts, &RestartOptions::min_uptime), "120000"},
    {"progress-file", "/p", at(&Said::progress_file), "/p"},
    {"same-failure", "0", at(&Said::restarts, &RestartOptions::same_failure), "0"},
    {"exclude-after", "5", at(&LaunchOptions::elasticity, &Elasticity::exclude_after), "5"},
    {"on-failure", "/f", of_feature(&FailureJudgeOptions::program), "/f"},
    {"monitor-interval", "5", at(&Said::nnodes), "1"},
    {"redirects", "3", at(&Said::output, &OutputPlan::redirects), "3"},
    {"tee", "1:2", at(&Said::output, &OutputPlan::tee), "1:2"},
    {"log-dir", "/dev/null", at(&Said::output, &OutputPlan::files), "no"},
    {"log-max", "4K", at(&Said::output, &OutputPlan::log_max), "4096"},
    {"duplicate-stdout-filters", "a,b", at(&Said::output, &OutputPlan::out_filters), "a;b;"},
    {"duplicate-stderr-filters", "a,,b", at(&Said::output, &OutputPlan::err_filters), "a,b;"},
    {"log-file", "/l", at(&Said::log_file), "/l"},
    {"events", "/e", of_feature(&EventLogOptions::path), "/e"},
    {"result-file", "/r", at(&Said::result_file), "/r"},
    {"prefix", "<{rank}>", at(&Said::output, &OutputPlan::prefix), "<5>"},
    {"show", "2-3", at(&Said::output, &OutputPlan::ranks_shown), "2-3"},
    {"local-ranks-filter", "1", at(&Said::output, &OutputPlan::local_ranks_shown), "1"},
    {"log-line-prefix-template", "${rank}>", at(&Said::output, &OutputPlan::tee_header), "5>"},
    {"quiet", "", at(&Said::verbosity), "quiet"},
    {"verbose", "", at(&Said::verbosity), "verbose"},
    {"tty", "3", at(&Said::tty_rank), "3"},
    {"wrap", "0:gdb --args", at(&Said::wraps), "gdb;--args;"},
    {"hosts", "a:2,b", at(&Said::start, &StartRequest::hosts), "a:2,b"},
    {"hostfile", "f", at(&Said::start, &StartRequest::host_file), "f"},
    {"include", "a:0", at(&Said::start, &StartRequest::include), "a:0"},
    {"exclude", "b", at(&Said::start, &StartRequest::exclude), "b"},
    {"rsh", "ssh -p 2", at(&Said::start, &StartRequest::rsh), "ssh;-p;2;"},
    {"fan-out", "7", at(&Said::start, &StartRequest::fan_out), "7"},
    {"no-ship", "", at(&Said::start, &StartRequest::no_ship), "yes"},
    {"clean-env", "", at(&Said::clean_environment), "yes"},
    {"env", "A=1", at(&Said::variables), "A=1;"},
    {"env-rank", "3:A=1", at(&Said::rank_variables), "3:A=1;"},
};

// Those that torchrun has, by PET_<NAME>.
const std::vector<std::string> kTorchruns = comma_separated(
    "nnodes,node-rank,nproc-per-node,master-addr,master-port,standalone,rdzv-backend,rdzv-endpoint,rdzv-id,"
    "rdzv-conf,module,no-python,role,shutdown-timeout,signals-to-handle,max-restarts,monitor-interval,"
    "local-addr,run-path,virtual-local-rank,start-method,exit-barrier-timeout,event-log-handler,"
    "redirects,tee,log-dir,duplicate-stdout-filters,duplicate-stderr-filters,local-ranks-filter,log-line-"
    "prefix-template");

std::string upper_name(const Row& row) {
    std::string name = row.name;
    for (char& letter : name) letter = letter == '-' ? '_' : static_cast<char>(letter & ~0x20);
    return name;
}

std::string own_variable(const Row& row) { return "DDPRUN_" + upper_name(row); }

std::vector<std::string> torchruns_variables(const Row& row) {
    if (std::find(kTorchruns.begin(), kTorchruns.end(), row.name) == kTorchruns.end()) return {};
    std::vector<std::string> variables = {"PET_" + upper_name(row)};
    if (row.name == "shutdown-timeout") variables.push_back("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    if (row.name == "log-line-prefix-template") variables.push_back("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    return variables;
}

Words with_program(Words words) {
    words.push_back("p");
    return words;
}

}  // namespace

TEST_CASE("options: the table here has every row") {
    Said line;
    std::set<std::string> there, here = {"--config"};
    for (const OptionGroup& group : option_rows(line)) {
        for (const OptionRow& row : group.rows) there.insert(long_name(row));
    }
    for (const Row& row : kRows) here.insert("--" + row.name);
    CHECK(there == here);
}

TEST_CASE("options: each is set by the command line, its own variable, torchrun's, and the file") {
    for (const Row& row : kRows) {
        CAPTURE(row.name);
        const std::string value = row.value.empty() ? "1" : row.value;
        const auto check = [&](Words words, const Environment& environment, const OptionOrigin& origin) {
            if (row.name == "nnodes") words.insert(words.begin(), "--master-addr=a");
            if (row.name == "node-rank") words.insert(words.begin(), {"--nnodes=2", "--master-addr=a"});
            const Said line = parse_command_line(with_program(words), environment);
            CHECK(row.seen(line) == row.expected);
            CHECK(line.origins.at("--" + row.name) == origin);
        };
        check({"--" + row.name + (row.value.empty() ? "" : "=" + row.value)}, {},
              {OptionSource::command_line, ""});
        check({}, {{own_variable(row), value}}, {OptionSource::variable, own_variable(row)});
        for (const std::string& variable : torchruns_variables(row))
            check({}, {{variable, value}}, {OptionSource::variable, variable});
        const ConfigText config(row.name + " = \"" + value + "\"\n");
        check({config.flag()}, {}, {OptionSource::config_file, config.path().string() + ":1"});
        check({}, {{"DDPRUN_CONFIG", config.path()}},
              {OptionSource::config_file, config.path().string() + ":1"});
    }
    CHECK(parse_command_line({"p"}, {}).origins.empty());
}

TEST_CASE("options: a bad value is named with its source, in one line") {
    for (const Row& row : kRows) {
        std::vector<std::string> refused;
        if (row.value.empty()) refused.emplace_back("maybe");
        const auto [first, last] = kRefused.equal_range(row.name);
        if (!row.value.empty())
            std::transform(first, last, std::back_inserter(refused),
                           [](const auto& one) { return one.second; });
        for (const std::string& bad : refused) {
            CAPTURE(row.name, bad);
            const auto check = [&](const Words& words, const Environment& environment,
                                   const std::string& source) {
                const std::string why = refusal(with_program(words), environment);
                CAPTURE(why);
                CHECK_THAT(why, Catch::StartsWith("--" + row.name + " ") && Catch::Contains(": "));
                CHECK(why.ends_with(source));
                CHECK(why.find('\n') == why.npos);
            };
            check({"--" + row.name + "=" + bad}, {}, "");
            check({}, {{own_variable(row), bad}}, " (from " + own_variable(row) + ")");
            for (const std::string& variable : torchruns_variables(row))
                check({}, {{variable, bad}}, " (from " + variable + ")");
            const ConfigText config(row.name + " = \"" + bad + "\"\n");
            check({config.flag()}, {}, " (from " + config.path().string() + ":1)");
        }
    }
    CHECK(refusal({"p"}, {{"PET_NODE_RANK", "2"}, {"PET_NNODES", "1"}}) ==
          "--node-rank 2: must be less than --nnodes, which is 1 (from PET_NODE_RANK)");
}

TEST_CASE("options: a free port is for one node only") {
    CHECK(
        refusal({"--nnodes=2", "--rdzv-endpoint=[::1]:0", "p"}) ==
        "--rdzv-endpoint [::1]:0: no other node could know which port is free here; 0 is for one node only");
    CHECK(refusal({"--nnodes=2", "--rdzv-endpoint=h:0", "--master-port=7", "p"}) == "accepted");
    CHECK(refusal({"--rdzv-endpoint=h:0", "p"}) == "accepted");
}

TEST_CASE("options: what follows a hang") {
    const std::tuple<const char*, HangAction, bool> cases[] = {{"2", HangAction::report, false},
                                                               {"2:report", HangAction::report, false},
                                                               {"2s:stop", HangAction::stop, false},
                                                               {"2:restart", HangAction::restart, true}};
    for (const auto& [value, action, restarts] : cases) {
        const Said line = parse_command_line({"--hang-timeout", value, "p"}, {});
        const auto& watch = line.features.of<HangWatchOptions>();
        CHECK((watch.limit == 2s && watch.action == action && line.restarts.after_hang == restarts));
    }
}

TEST_CASE("options: the command line is stronger than DDPRUN_, that than torchrun's, that than the file") {
    const ConfigText config("shutdown-timeout = 1\n");
    Words words = {config.flag(), "p"};
    Environment environment;
    const auto seconds = [&] { return parse_command_line(words, environment).grace_period; };
    CHECK(seconds() == 1s);
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = "2";
    CHECK(seconds() == 2s);
    environment["PET_SHUTDOWN_TIMEOUT"] = "3";
    CHECK(seconds() == 3s);
    environment["DDPRUN_SHUTDOWN_TIMEOUT"] = "4";
    CHECK(seconds() == 4s);
    words.insert(words.begin(), "--grace=5");
    CHECK(seconds() == 5s);
    // What is empty is not given.
    words.front() = "--grace=";
    environment["DDPRUN_SHUTDOWN_TIMEOUT"] = "";
    CHECK(seconds() == 3s);
}

TEST_CASE("options: an error that begins with a value says where that is from") {
    const Said line =
        parse_command_line({"--role=r", "p"}, {{"DDPRUN_EVENTS", "e"}, {"DDPRUN_AUTH", "auto"}});
    CHECK(as_said(line, "--events e: No such file") == "--events e: No such file (from DDPRUN_EVENTS)");
    CHECK(as_said(line, "--events 'e' cannot be") == "--events 'e' cannot be (from DDPRUN_EVENTS)");
    for (const char* other :
         {"--events e: no (from DDPRUN_EVENTS)", "--role r: no", "what --events e: is not"})
        CHECK(as_said(line, other) == other);
}

TEST_CASE("options: what a weaker source says is not even looked at") {
    CHECK(parse_command_line({"--nnodes=1", "p"}, {{"PET_NNODES", "x"}}).nnodes == 1);
    CHECK_FALSE(parse_command_line({"--module=0", "p"}, {{"PET_MODULE", "1"}}).module);
    CHECK_FALSE(parse_command_line({"p"}, {{"DDPRUN_MODULE", "0"}, {"PET_MODULE", "1"}}).module);
}

TEST_CASE("options: workers do not inherit what was said to their launcher") {
    NodeFacts facts;
    facts.environment = {{"DDPRUN_NNODES", "1"},       {"DDPRUN_CONFIG", ""},
                         {"DDPRUN_NET", "10.0.0.0/8"}, {"DDPRUN_SIGNAL_SCOPE", "x"},
                         {"DDPRUN_TRANSPORT", "tcp"},  {"DDPRUN_RUN_ID", "outer"},
                         {"PET_NNODES", "1"},          {"DDPRUN_NOTICE", "30"}};
    const Said line = parse_command_line({"--signal-scope=group", "p"}, facts.environment);
    CHECK(resolve_launch(JobPlan(line), facts).environment ==
          Environment{{"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
                      {"DDPRUN_NET", "10.0.0.0/8"},
                      {"DDPRUN_TRANSPORT", "tcp"},
                      {"DDPRUN_RUN_ID", "outer"},
                      {"PET_NNODES", "1"},
                      {"DDPRUN_NOTICE", "30"}});
}

}  // namespace ddprun
