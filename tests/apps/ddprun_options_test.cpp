// The whole front door of ddprun: words, variables and a configuration file in, values out. Every option by
// every source.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "apps/ddprun/launch_plan.hpp"
#include "apps/ddprun/option_rows.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// A configuration file for as long as it lives.
class ConfigText {
  public:
    explicit ConfigText(const std::string& text)
        : path_(std::filesystem::temp_directory_path() / ("ddprun-options-" + std::to_string(::getpid()))) {
        std::ofstream(path_) << text;
    }
    ~ConfigText() { std::filesystem::remove(path_); }
    ConfigText(const ConfigText&) = delete;
    ConfigText& operator=(const ConfigText&) = delete;

    std::string flag() const { return "--config=" + path_.string(); }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

std::string refusal(const Words& words, const Environment& environment = {}) {
    try {
        parse_command_line(words, environment);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "accepted";
}

std::string text(const std::string& value) { return value; }
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
        all += std::to_string(range.low) + "-" + std::to_string(range.high) + " ";
    return all;
}
std::string text(const LinePrefix& prefix) {
    return prefix.with({"h", "default", "stdout", 5, 1}).render("NOW");
}
template <class Value>
std::string text(const std::optional<Value>& value) {
    return value ? text(*value) : "none";
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

struct Row {
    std::string name;                                     // without dashes
    std::string value;                                    // "": a flag
    std::function<std::string(const CommandLine&)> seen;  // in the result
    std::string expected;
    std::vector<std::string> variables = {};  // besides DDPRUN_<NAME>
    std::string bad = {};                     // a value that is refused
    Words with = {};                          // words that this one needs
};

const std::vector<Row>& rows() {
    static const std::vector<Row> kRows = {
        {"nnodes",
         "3",
         [](const CommandLine& line) { return text(line.nnodes); },
         "3",
         {"PET_NNODES"},
         "2:4",
         {"--master-addr=a"}},
        {"node-rank",
         "1",
         [](const CommandLine& line) { return text(line.node_rank); },
         "1",
         {"PET_NODE_RANK"},
         "-1",
         {"--nnodes=2", "--master-addr=a"}},
        {"nproc-per-node",
         "gpu",
         [](const CommandLine& line) { return text(line.nproc_per_node); },
         "gpu",
         {"PET_NPROC_PER_NODE"},
         "4097"},
        {"master-addr",
         "[::1]",
         [](const CommandLine& line) { return text(line.master_addr); },
         "::1",
         {"PET_MASTER_ADDR"},
         "[::1"},
        {"master-port",
         "1234",
         [](const CommandLine& line) { return text(line.master_port); },
         "1234",
         {"PET_MASTER_PORT"},
         "65536"},
        {"listen", "any", [](const CommandLine& line) { return text(line.listen_any); }, "yes", {}, "none"},
        {"net",
         "10.0.0.0/8",
         [](const CommandLine& line) { return text(line.networks); },
         "10.0.0.0/8",
         {},
         "eth0"},
        {"standalone",
         "",
         [](const CommandLine& line) { return text(line.standalone); },
         "yes",
         {"PET_STANDALONE"},
         "maybe"},
        {"rdzv-backend",
         "static",
         [](const CommandLine& line) { return text(line.nnodes); },
         "1",
         {"PET_RDZV_BACKEND"},
         "c10d"},
        {"rdzv-endpoint",
         "h:7",
         [](const CommandLine& line) { return text(line.master_port); },
         "7",
         {"PET_RDZV_ENDPOINT"},
         "h:x"},
        {"rdzv-id", "job", [](const CommandLine& line) { return text(line.run_id); }, "job", {"PET_RDZV_ID"}},
        {"allow-different",
         "",
         [](const CommandLine& line) { return text(line.allow_different); },
         "yes",
         {},
         "maybe"},
        {"rdzv-conf",
         "join_timeout=7,rank=0",
         [](const CommandLine& line) { return text(line.join_timeout); },
         "7000",
         {"PET_RDZV_CONF"},
         "join_timeout"},
        {"module",
         "",
         [](const CommandLine& line) { return text(line.module); },
         "yes",
         {"PET_MODULE"},
         "maybe"},
        {"no-python",
         "",
         [](const CommandLine& line) { return text(line.no_python); },
         "yes",
         {"PET_NO_PYTHON"},
         "maybe"},
        {"python", "", [](const CommandLine& line) { return text(line.python); }, "yes", {}, "maybe"},
        {"role",
         "chief of staff",
         [](const CommandLine& line) { return text(line.role); },
         "chief of staff",
         {"PET_ROLE"}},
        {"gpu-bind",
         "all",
         [](const CommandLine& line) { return text(line.gpu_bind == GpuBind::all); },
         "yes",
         {},
         "some"},
        {"share-gpus", "", [](const CommandLine& line) { return text(line.share_gpus); }, "yes", {}, "maybe"},
        {"shutdown-timeout",
         "5",
         [](const CommandLine& line) { return text(line.shutdown_timeout); },
         "5000",
         {"PET_SHUTDOWN_TIMEOUT", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
         "-1"},
        {"signals-to-handle",
         "TERM,USR1",
         [](const CommandLine& line) { return text(line.terminating_signals); },
         "15 10 ",
         {"PET_SIGNALS_TO_HANDLE"}},
        {"forward",
         "USR1=USR2",
         [](const CommandLine& line) { return text(line.forwarded_signals.at(SIGUSR1)); },
         std::to_string(SIGUSR2),
         {},
         "KILL=TERM"},
        {"requeue-on",
         "USR1",
         [](const CommandLine& line) { return text(int(line.requeue_signals.count(SIGUSR1))); },
         "1",
         {},
         "NOSUCH"},
        {"signal-scope",
         "group",
         [](const CommandLine& line) { return text(line.signal_scope == SignalScope::group); },
         "yes",
         {},
         "all"},
        {"detach", "", [](const CommandLine& line) { return text(line.detach); }, "yes", {}, "maybe"},
        {"max-restarts",
         "4",
         [](const CommandLine& line) { return text(line.restarts.max_restarts); },
         "4",
         {"PET_MAX_RESTARTS"},
         "many"},
        {"restart-on",
         "1,64-78",
         [](const CommandLine& line) { return text(line.restarts.restart_on); },
         "1-1 64-78 ",
         {},
         "256"},
        {"no-restart-on",
         "2",
         [](const CommandLine& line) { return text(line.restarts.no_restart_on); },
         "2-2 ",
         {},
         "5-2"},
        {"backoff",
         "1s..5m",
         [](const CommandLine& line) {
             return text(line.restarts.backoff_min) + text(line.restarts.backoff_max);
         },
         "1000300000",
         {},
         "5m..1s"},
        {"min-uptime",
         "2m",
         [](const CommandLine& line) { return text(line.restarts.min_uptime); },
         "120000",
         {},
         "soon"},
        {"progress-file", "/p", [](const CommandLine& line) { return text(line.progress_file); }, "/p"},
        {"monitor-interval",
         "5",
         [](const CommandLine& line) { return text(line.nnodes); },
         "1",
         {"PET_MONITOR_INTERVAL"}},
        {"redirects",
         "3",
         [](const CommandLine& line) { return text(line.output.redirects); },
         "3",
         {"PET_REDIRECTS"},
         "4"},
        {"tee",
         "1:2",
         [](const CommandLine& line) { return text(line.output.tee); },
         "1:2",
         {"PET_TEE"},
         "1,2"},
        {"log-dir",
         "/dev/null",
         [](const CommandLine& line) { return text(line.output.files); },
         "no",
         {"PET_LOG_DIR"}},
        {"log-max",
         "4K",
         [](const CommandLine& line) { return std::to_string(line.output.log_max); },
         "4096",
         {},
         "1K"},
        {"duplicate-stdout-filters",
         "a,b",
         [](const CommandLine& line) { return text(line.output.out_filters); },
         "a;b;",
         {"PET_DUPLICATE_STDOUT_FILTERS"}},
        {"duplicate-stderr-filters",
         "a,,b",
         [](const CommandLine& line) { return text(line.output.err_filters); },
         "a,b;",
         {"PET_DUPLICATE_STDERR_FILTERS"}},
        {"result-file", "/r", [](const CommandLine& line) { return text(line.result_file); }, "/r"},
        {"prefix",
         "<{rank}>",
         [](const CommandLine& line) { return text(line.output.prefix); },
         "<5>",
         {},
         "{rnk}"},
        {"show",
         "2-3",
         [](const CommandLine& line) { return text(line.output.ranks_shown); },
         "2-3",
         {},
         "x"},
        {"local-ranks-filter",
         "1",
         [](const CommandLine& line) { return text(line.output.local_ranks_shown); },
         "1",
         {"PET_LOCAL_RANKS_FILTER"},
         "x"},
        {"log-line-prefix-template",
         "${rank}>",
         [](const CommandLine& line) { return text(line.output.tee_header); },
         "5>",
         {"PET_LOG_LINE_PREFIX_TEMPLATE", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"}},
        {"quiet",
         "",
         [](const CommandLine& line) { return text(line.verbosity == Verbosity::quiet); },
         "yes",
         {},
         "maybe"},
        {"verbose",
         "",
         [](const CommandLine& line) { return text(line.verbosity == Verbosity::verbose); },
         "yes",
         {},
         "maybe"},
        {"tty", "3", [](const CommandLine& line) { return text(line.tty_rank); }, "3", {}, "x"},
        {"wrap",
         "0:gdb --args",
         [](const CommandLine& line) { return text(line.wraps.at(0).words); },
         "gdb;--args;",
         {},
         "x:gdb"},
    };
    return kRows;
}

std::string own_variable(const Row& row) {
    std::string name = "DDPRUN_" + row.name;
    for (char& letter : name)
        letter = letter == '-' ? '_' : letter >= 'a' ? static_cast<char>(letter - 32) : letter;
    return name;
}

Words with_program(Words words) {
    words.push_back("p");
    return words;
}

}  // namespace

TEST_CASE("options: the table here has every row") {
    CommandLine line;
    std::set<std::string> there, here = {"--config"};
    for (const OptionGroup& group : option_rows(line)) {
        for (const OptionRow& row : group.rows) there.insert(long_name(row));
    }
    for (const Row& row : rows()) here.insert("--" + row.name);
    CHECK(there == here);
}

TEST_CASE("options: each is set by the command line, its own variable, torchrun's, and the file") {
    for (const Row& row : rows()) {
        CAPTURE(row.name);
        const std::string value = row.value.empty() ? "1" : row.value;
        const auto check = [&](Words words, const Environment& environment, const OptionOrigin& origin) {
            words.insert(words.end(), row.with.begin(), row.with.end());
            const CommandLine line = parse_command_line(with_program(words), environment);
            CHECK(row.seen(line) == row.expected);
            CHECK(line.origins.at("--" + row.name) == origin);
        };
        check({"--" + row.name + (row.value.empty() ? "" : "=" + row.value)}, {},
              {OptionSource::command_line, ""});
        check({}, {{own_variable(row), value}}, {OptionSource::variable, own_variable(row)});
        for (const std::string& variable : row.variables)
            check({}, {{variable, value}}, {OptionSource::variable, variable});
        const ConfigText config(row.name + " = \"" + value + "\"\n");
        check({config.flag()}, {}, {OptionSource::config_file, config.path()});
        check({}, {{"DDPRUN_CONFIG", config.path()}}, {OptionSource::config_file, config.path()});
    }
    CHECK(parse_command_line({"p"}, {}).origins.empty());
}

TEST_CASE("options: a bad value is named with its source, in one line") {
    for (const Row& row : rows()) {
        if (row.bad.empty()) continue;
        CAPTURE(row.name);
        const auto check = [&](const Words& words, const Environment& environment,
                               const std::string& source) {
            const std::string why = refusal(with_program(words), environment);
            CAPTURE(why);
            CHECK_THAT(why, Catch::StartsWith("--" + row.name + " ") && Catch::Contains(": "));
            CHECK(why.ends_with(source));
            CHECK(why.find('\n') == why.npos);
        };
        check({"--" + row.name + "=" + row.bad}, {}, "");
        check({}, {{own_variable(row), row.bad}}, " (from " + own_variable(row) + ")");
        for (const std::string& variable : row.variables)
            check({}, {{variable, row.bad}}, " (from " + variable + ")");
        const ConfigText config(row.name + " = \"" + row.bad + "\"\n");
        check({config.flag()}, {}, " (from " + config.path().string() + ")");
    }
    CHECK(refusal({"p"}, {{"PET_NODE_RANK", "2"}}) ==
          "--node-rank 2: must be less than --nnodes, which is 1 (from PET_NODE_RANK)");
}

TEST_CASE("options: the command line is stronger than DDPRUN_, that than torchrun's, that than the file") {
    const ConfigText config("shutdown-timeout = 1\n");
    Words words = {config.flag(), "p"};
    Environment environment;
    const auto seconds = [&] { return parse_command_line(words, environment).shutdown_timeout; };
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

TEST_CASE("options: what a weaker source says is not even looked at") {
    CHECK(parse_command_line({"--nnodes=1", "p"}, {{"PET_NNODES", "x"}}).nnodes == 1);
    CHECK_FALSE(parse_command_line({"--module=0", "p"}, {{"PET_MODULE", "1"}}).module);
    CHECK_FALSE(parse_command_line({"p"}, {{"DDPRUN_MODULE", "0"}, {"PET_MODULE", "1"}}).module);
}

TEST_CASE("options: the configuration file") {
    const ConfigText config(
        "# of this site\nmax_restarts = 3\ngrace = 9\nallow-different = true\nquiet = false\nprefix = true\n"
        "role = ''\nwrap = [\"0:gdb --args\", \"1:valgrind -q\"]\nrestart-on = \"1,64-78\"\n");
    const CommandLine line = parse_command_line({config.flag(), "p"}, {});
    CHECK(line.restarts.max_restarts == 3);
    CHECK(line.shutdown_timeout == 9s);
    CHECK(line.allow_different);
    CHECK(line.verbosity == Verbosity::usual);
    CHECK(text(line.output.prefix) == "h:5: ");
    CHECK(line.role == "default");
    CHECK(line.wraps.size() == 2);
    CHECK(text(line.restarts.restart_on) == "1-1 64-78 ");
}

TEST_CASE("options: what a configuration file may not say") {
    const struct {
        std::string text, why;
    } rows[] = {
        {"nnode = 2\n", "nnode: no such option; did you mean nnodes?"},
        {"completely-unknown = 2\n", "completely-unknown: no such option"},
        {"config = x\n", "config: no such option"},
        {"[nodes]\nnnodes = 2\n", "nodes.nnodes: no such option"},
        {"restart-on = 1,64-78\n", "restart-on: takes one value; put one with blanks or commas in quotes"},
        {"role = chief of staff\n", "role: takes one value; put one with blanks or commas in quotes"},
    };
    for (const auto& row : rows) {
        const ConfigText config(row.text);
        CHECK_THAT(refusal({config.flag(), "p"}),
                   Catch::StartsWith("--config " + config.path().string() + ": " + row.why));
    }
    CHECK(refusal({"--config=/no/such/file", "p"}) ==
          "--config /no/such/file: cannot be read: No such file or directory");
    CHECK(refusal({"p"}, {{"DDPRUN_CONFIG", "/"}}) ==
          "--config /: cannot be read: Is a directory (from DDPRUN_CONFIG)");
}

TEST_CASE("options: workers do not inherit what was said to their launcher") {
    NodeFacts facts;
    facts.environment = {{"DDPRUN_NNODES", "1"},       {"DDPRUN_CONFIG", ""},
                         {"DDPRUN_NET", "10.0.0.0/8"}, {"DDPRUN_SIGNAL_SCOPE", "x"},
                         {"DDPRUN_TRANSPORT", "tcp"},  {"DDPRUN_RUN_ID", "outer"},
                         {"PET_NNODES", "1"},          {"DDPRUN_NOTICE", "30"}};
    const CommandLine line = parse_command_line({"--signal-scope=group", "p"}, facts.environment);
    CHECK(resolve_launch(line, facts).environment == Environment{{"DDPRUN_NET", "10.0.0.0/8"},
                                                                 {"DDPRUN_TRANSPORT", "tcp"},
                                                                 {"DDPRUN_RUN_ID", "outer"},
                                                                 {"PET_NNODES", "1"},
                                                                 {"DDPRUN_NOTICE", "30"}});
}

TEST_CASE("options: no variable of the workers is an option of a launcher among them") {
    CommandLine line;
    std::set<std::string> own;
    for (const OptionGroup& group : option_rows(line)) {
        for (const OptionRow& row : group.rows) own.insert(variable_of(row));
    }
    // DDPRUN_NET means the same to both.
    for (const char* name :
         {"DDPRUN_BACKEND", "DDPRUN_CUDA_LIBRARY", "DDPRUN_DEVICE", "DDPRUN_HOSTID", "DDPRUN_LIFE",
          "DDPRUN_NCCL_LIBRARY", "DDPRUN_NOTICE", "DDPRUN_RESTART_REASON", "DDPRUN_ROUND", "DDPRUN_RUN_ID",
          "DDPRUN_SOCKETS_PER_PEER", "DDPRUN_SOCKET_IFNAME", "DDPRUN_TRANSPORT"}) {
        CHECK_FALSE(own.contains(name));
    }
    CHECK(own.contains("DDPRUN_NET"));
}

}  // namespace ddprun
