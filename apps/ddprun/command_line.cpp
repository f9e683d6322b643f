#include "apps/ddprun/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <tuple>

#include "rendezvous/network.hpp"

namespace ddprun {
namespace {

// What CLI11 fills in; everything with a grammar of its own stays text until it is checked here.
struct Texts {
    std::string nnodes = "1";
    std::string node_rank = "0";
    std::string nproc_per_node = "1";
    std::string master_addr;
    std::string master_port;
    std::string networks;
    std::string rdzv_backend = "static";
    std::string rdzv_endpoint;
    std::string rdzv_id = "none";
    std::string rdzv_conf;
    std::string max_restarts = "0";
    std::string restart_on;
    std::string no_restart_on;
    std::string backoff = "0";
    std::string min_uptime = "10";
    std::string progress_file;
    std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
    std::string forward;
    std::string monitor_interval;
    OutputOptions output;
    std::string prefix;
    std::string result_file;
    bool quiet = false;
    bool verbose = false;
    std::vector<std::string> wraps;
    std::string tty_rank;
    std::string role = "default";
    std::string gpu_bind = "auto";
    std::string shutdown_timeout = "30";
    bool detach = false;
    bool standalone = false;
    bool module = false;
    bool no_python = false;
    bool python = false;
    bool share_gpus = false;
};

// CLI11's own layout with our usage line; the program is no option of CLI11's.
class HelpText : public CLI::Formatter {
  public:
    std::string make_usage(const CLI::App*, std::string) const override {
        return "Usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS…]\n";
    }
};

// Adds options under one heading of the help text.
struct Section {
    CLI::App& app;
    const char* heading;

    void value(const char* names, std::string& text, const char* type, const char* help,
               const char* variable) {
        auto* option = app.add_option(names, text, help)->group(heading)->type_name(type);
        if (variable != nullptr) option->envname(variable);
    }
    void flag(const char* names, bool& set, const char* help, const char* variable) {
        auto* option = app.add_flag(names, set, help)->group(heading);
        if (variable != nullptr) option->envname(variable);
    }
};

void add_nodes(CLI::App& app, Texts& texts) {
    Section section{app, "Nodes"};
    section.value("--nnodes", texts.nnodes, "N", "Number of nodes (1)", "PET_NNODES");
    section.value("--node-rank", texts.node_rank, "R",
                  "This node's number, 0 to N-1; node 0 hosts the rendezvous (0)", "PET_NODE_RANK");
    section.value("--nproc-per-node", texts.nproc_per_node, "P",
                  "Workers on this node: a number, or gpu (one for each), cpu, auto; nodes may differ (1)",
                  "PET_NPROC_PER_NODE");
    section.value("--master-addr", texts.master_addr, "HOST",
                  "Address or name of node 0, as the other nodes reach it", "PET_MASTER_ADDR");
    section.value("--master-port", texts.master_port, "PORT",
                  "Port on node 0 (a free one on a single node, else 29500)", "PET_MASTER_PORT");
    section.value("--net", texts.networks, "CIDR,…",
                  "Networks by which the workers of different nodes reach each other, like 10.0.0.0/8; sets "
                  "DDPRUN_NET (that of --master-addr)",
                  nullptr);
    section.flag("--standalone", texts.standalone, "One node and a free port; the default on one node",
                 "PET_STANDALONE");
}

void add_rendezvous(CLI::App& app, Texts& texts) {
    Section section{app, "Rendezvous"};
    section.value("--rdzv-backend", texts.rdzv_backend, "NAME", "static", "PET_RDZV_BACKEND");
    section.value("--rdzv-endpoint", texts.rdzv_endpoint, "HOST[:PORT]",
                  "Another way to write --master-addr and --master-port", "PET_RDZV_ENDPOINT");
    section.value("--rdzv-id", texts.rdzv_id, "ID", "Job id, the same on all nodes (none)", "PET_RDZV_ID");
    section.value("--rdzv-conf", texts.rdzv_conf, "KEY=VALUE,…",
                  "join_timeout=900: seconds to wait for all nodes", "PET_RDZV_CONF");
}

void add_program(CLI::App& app, Texts& texts) {
    Section section{app, "Program"};
    section.flag("-m,--module", texts.module, "The program is a Python module", "PET_MODULE");
    section.flag("--no-python", texts.no_python, "Execute the program itself, also if its name ends in .py",
                 "PET_NO_PYTHON");
    section.flag("--python", texts.python, "Run the program by python3 -u, whatever its name", nullptr);
    section.value("--role", texts.role, "NAME", "Label of these workers, ROLE_NAME (default)", "PET_ROLE");
}

void add_devices(CLI::App& app, Texts& texts) {
    Section section{app, "Devices"};
    section.value("--gpu-bind", texts.gpu_bind, "HOW",
                  "single: a worker sees its own GPU; all: it sees all and uses LOCAL_RANK; none: untouched; "
                  "auto: all for Python programs, single for others (auto)",
                  nullptr);
    section.flag("--share-gpus", texts.share_gpus, "Allow more workers than GPUs", nullptr);
}

void add_supervision(CLI::App& app, Texts& texts) {
    Section section{app, "Supervision"};
    section.value("--shutdown-timeout,--grace", texts.shutdown_timeout, "S",
                  "Seconds between the signal to stop and SIGKILL (30)", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    section.value("--signals-to-handle", texts.signals_to_handle, "NAMES",
                  "Signals that are passed on to all workers and end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)",
                  "PET_SIGNALS_TO_HANDLE");
    section.value("--forward", texts.forward, "A,B=C",
                  "Signals that are passed on to all workers without ending the job; B arrives as C",
                  nullptr);
    section.flag("--detach", texts.detach,
                 "Return when the workers run, and print the job's id; see ddpctl --help", nullptr);
}

void add_restarts(CLI::App& app, Texts& texts) {
    Section section{app, "Restarts (node 0's flags count)"};
    section.value("--max-restarts", texts.max_restarts, "N", "Restarts of the whole job after failures (0)",
                  "PET_MAX_RESTARTS");
    section.value("--restart-on", texts.restart_on, "CODES",
                  "Restart only after these exit codes, like 1,64-78", nullptr);
    section.value("--no-restart-on", texts.no_restart_on, "CODES", "Never restart after these exit codes",
                  nullptr);
    section.value("--backoff", texts.backoff, "MIN..MAX",
                  "Pause before a restart, doubled each time, like 1s..5m (0)", nullptr);
    section.value("--min-uptime", texts.min_uptime, "S",
                  "A round this long was progress; 3 restarts in a row without progress end the job (10)",
                  nullptr);
    section.value("--progress-file", texts.progress_file, "PATH", "Its change during a round was progress",
                  nullptr);
    section.value("--monitor-interval", texts.monitor_interval, "S", "No effect: nothing is polled",
                  "PET_MONITOR_INTERVAL");
}

void add_output(CLI::App& app, Texts& texts) {
    Section section{app, "Output"};
    OutputOptions& output = texts.output;
    section.value("-r,--redirects", output.redirects, "V|R:V,…",
                  "Streams to files only: 0 none, 1 stdout, 2 stderr, 3 both, for all or by local rank",
                  "PET_REDIRECTS");
    section.value("-t,--tee", output.tee, "V|R:V,…", "Streams to files and to the console, with a header",
                  "PET_TEE");
    section.value("--log-dir", output.log_dir, "DIR",
                  "Where files go; /dev/null: no files (a new folder in TMPDIR)", "PET_LOG_DIR");
    section.value("--log-max", output.log_max, "SIZE", "Each file keeps its head and its tail, like 100M",
                  nullptr);
    app.add_option(
           "--prefix", texts.prefix,
           "Put the host and rank in front of each line, or TEMPLATE with {host} {rank} {local_rank} {role} "
           "{time} {stream}")
        ->group(section.heading)
        ->type_name("[=TEMPLATE]")
        ->expected(0, 1);
    section.value("--show", output.show, "RANKS", "Only these global ranks on the console, like 0,8-15",
                  nullptr);
    section.value("--local-ranks-filter", output.local_ranks_filter, "RANKS",
                  "Only these local ranks on the console", "PET_LOCAL_RANKS_FILTER");
    section.value("--log-line-prefix-template", output.log_line_prefix_template, "TEMPLATE",
                  "The header of --tee, with ${role_name} ${rank} ${local_rank} ${hostname}",
                  "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    section.value("--duplicate-stdout-filters", output.duplicate_stdout_filters, "TEXTS",
                  "Lines with one of these texts are also copied to filtered_stdout.log",
                  "PET_DUPLICATE_STDOUT_FILTERS");
    section.value("--duplicate-stderr-filters", output.duplicate_stderr_filters, "TEXTS",
                  "Likewise, filtered_stderr.log", "PET_DUPLICATE_STDERR_FILTERS");
    section.flag("-q,--quiet", texts.quiet, "The launcher says only errors and the report", nullptr);
    section.flag("-v,--verbose", texts.verbose,
                 "The launcher says what it does: endpoint, ranks, pids, ends, why it stops workers",
                 nullptr);
    section.value("--result-file", texts.result_file, "PATH", "Write how the job ended to this file, as JSON",
                  nullptr);
}

void add_debugging(CLI::App& app, Texts& texts) {
    Section section{app, "Debugging"};
    section.value(
        "--tty", texts.tty_rank, "RANK",
        "This rank has the launcher's stdin, stdout and stderr; the others have /dev/null for stdin",
        nullptr);
    app.add_option("--wrap", texts.wraps, "Put COMMAND (gdb, nsys, …) in front of these ranks; %r %l %h")
        ->group(section.heading)
        ->type_name("RANKS:COMMAND")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->expected(1);
}

void add_options(CLI::App& app, Texts& texts) {
    app.set_help_flag("-h,--help", "Show this text and exit");
    app.set_version_flag("--version", "ddprun " DDPRUN_VERSION, "Show the version and exit");
    add_nodes(app, texts);
    add_rendezvous(app, texts);
    add_program(app, texts);
    add_devices(app, texts);
    add_supervision(app, texts);
    add_restarts(app, texts);
    add_output(app, texts);
    add_debugging(app, texts);
}

[[noreturn]] void refuse_unknown(const std::string& flag, const std::vector<const CLI::Option*>& options) {
    std::vector<std::string> names;
    for (const CLI::Option* option : options) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    auto meant = nearest(flag, names);
    throw UsageError(flag + ": no such flag" +
                     (meant ? "; did you mean " + *meant + "?" : "; see ddprun --help"));
}

// Splits the words into the launcher's, with dashes in the options' names, and the program's. The launcher's
// end at
// "--" or at the first word that is neither an option nor an option's value.
std::vector<std::string> take_launcher_words(const CLI::App& app, const std::vector<std::string>& words,
                                             std::vector<std::string>& program) {
    const std::vector<const CLI::Option*> options = app.get_options();
    std::vector<std::string> launcher;
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
        std::string word = words[i];
        if (word == "--") {
            ++i;
            break;
        }
        if (word.size() < 2 || word.front() != '-') break;
        const bool is_long = word[1] == '-';
        const std::size_t name_end = is_long ? std::min(word.find('='), word.size()) : 2;
        std::string name = word.substr(0, name_end);
        std::replace(name.begin() + 2, name.end(), '_', '-');
        auto match = std::find_if(options.begin(), options.end(),
                                  [&](const CLI::Option* option) { return option->check_name(name); });
        if (match == options.end()) refuse_unknown(name, options);
        launcher.push_back(name + word.substr(name_end));
        // One whose value is optional takes it only behind an "=".
        const bool wants_value = (*match)->get_items_expected_min() > 0;
        if (!wants_value || name_end < word.size()) continue;
        if (i + 1 == words.size()) throw UsageError(name + ": needs a value");
        // "--name=value" keeps a value that begins with a dash from being read as an option.
        launcher.back() += (is_long ? "=" : "") + words[++i];
    }
    program.assign(words.begin() + static_cast<std::ptrdiff_t>(std::min(i, words.size())), words.end());
    return launcher;
}

void set_master(CommandLine& line, const Texts& texts) {
    if (!texts.master_addr.empty()) {
        auto endpoint = parse_endpoint(texts.master_addr, 0);
        if (!endpoint || endpoint->port != 0) {
            throw UsageError("--master-addr " + texts.master_addr +
                             ": must be a name, an IPv4 or an IPv6 address");
        }
        line.master_addr = endpoint->host;
    }
    if (!texts.master_port.empty()) {
        line.master_port = parse_port(texts.master_port);
        if (!line.master_port)
            throw UsageError("--master-port " + texts.master_port + ": must be from 0 to 65535");
    }
    if (texts.rdzv_endpoint.empty()) return;
    auto endpoint = parse_endpoint(texts.rdzv_endpoint, line.master_port.value_or(0));
    if (!endpoint) throw UsageError("--rdzv-endpoint " + texts.rdzv_endpoint + ": must be HOST or HOST:PORT");
    if (line.master_addr && *line.master_addr != endpoint->host) {
        throw UsageError("--rdzv-endpoint " + texts.rdzv_endpoint + ": contradicts --master-addr " +
                         *line.master_addr);
    }
    line.master_addr = endpoint->host;
    if (endpoint->port != 0) line.master_port = endpoint->port;
}

void set_networks(CommandLine& line, const Texts& texts) {
    line.networks = texts.networks;
    if (texts.networks.empty() || parse_networks(texts.networks)) return;
    throw UsageError("--net " + texts.networks +
                     ": must be networks like 10.0.0.0/8 or fd00::/8, with commas between");
}

void check_together(const CommandLine& line, const Texts& texts) {
    if (texts.rdzv_backend != "static") {
        throw UsageError("--rdzv-backend " + texts.rdzv_backend + ": only static is supported");
    }
    if (texts.standalone && line.nnodes != 1) {
        throw UsageError("--standalone: one node only, but --nnodes is " + std::to_string(line.nnodes));
    }
    if (line.node_rank >= line.nnodes) {
        throw UsageError("--node-rank " + std::to_string(line.node_rank) +
                         ": must be less than --nnodes, which is " + std::to_string(line.nnodes));
    }
    // A default would make every node wait for itself.
    if (line.nnodes > 1 && !line.master_addr) {
        throw UsageError("--nnodes " + std::to_string(line.nnodes) +
                         ": needs --master-addr, the address of node 0");
    }
    if (line.detach && line.tty_rank)
        throw UsageError("--detach: goes on without a terminal, so --tty cannot be given with it");
    if (line.nnodes > 1 && line.master_port == std::uint16_t{0}) {
        throw UsageError("--master-port 0: the nodes must agree on a port; 0 is for one node only");
    }
}

void set_supervision(CommandLine& line, const Texts& texts) {
    RestartOptions& restarts = line.restarts;
    auto codes = [](const std::string& flag, const std::string& text) {
        auto ranges = parse_code_ranges(text);
        if (!ranges) throw UsageError(flag + " " + text + ": must be exit codes from 1 to 255, like 1,64-78");
        return *ranges;
    };
    restarts.max_restarts = bounded("--max-restarts", texts.max_restarts, 0, kMaxRestarts);
    if (!texts.restart_on.empty()) restarts.restart_on = codes("--restart-on", texts.restart_on);
    if (!texts.no_restart_on.empty()) restarts.no_restart_on = codes("--no-restart-on", texts.no_restart_on);
    std::tie(restarts.backoff_min, restarts.backoff_max) = parse_backoff(texts.backoff);
    auto min_uptime = parse_duration(texts.min_uptime);
    if (!min_uptime) throw UsageError("--min-uptime " + texts.min_uptime + ": must be a duration like 60s");
    restarts.min_uptime = *min_uptime;
    restarts.has_progress_file = !texts.progress_file.empty();
    line.progress_file = texts.progress_file;
    line.shutdown_timeout_s = bounded("--shutdown-timeout", texts.shutdown_timeout, 0, kMaxTimeoutSeconds);
    line.terminating_signals = parse_signals(texts.signals_to_handle, line.unknown_signals);
    line.forwarded_signals = parse_forward(texts.forward);
    for (const auto& [received, sent] : line.forwarded_signals)
        std::erase(line.terminating_signals, received);
}

void set_output(CommandLine& line, Texts& texts, const CLI::App& app) {
    if (app.count("--prefix") > 0) texts.output.prefix = texts.prefix;
    auto plan = parse_output_options(texts.output);
    if (const auto* error = std::get_if<std::string>(&plan)) throw UsageError(*error);
    line.output = std::get<OutputPlan>(plan);
    if (texts.quiet && texts.verbose) throw UsageError("--quiet: contradicts --verbose");
    if (texts.quiet) line.verbosity = Verbosity::quiet;
    if (texts.verbose) line.verbosity = Verbosity::verbose;
    for (const std::string& text : texts.wraps) {
        auto wrap = parse_wrap(text);
        if (const auto* error = std::get_if<std::string>(&wrap)) throw UsageError(*error);
        line.wraps.push_back(std::get<Wrap>(wrap));
    }
    if (!texts.tty_rank.empty()) line.tty_rank = bounded("--tty", texts.tty_rank, 0, kMaxRank);
    line.result_file = texts.result_file;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& words) {
    CLI::App app("Starts a distributed program on this node as part of a job, and supervises it.");
    app.formatter(std::make_shared<HelpText>());
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    Texts texts;
    add_options(app, texts);

    CommandLine line;
    std::vector<std::string> launcher = take_launcher_words(app, words, line.program);
    std::reverse(launcher.begin(), launcher.end());  // CLI11 takes a vector from its back.
    try {
        app.parse(std::move(launcher));
    } catch (const CLI::CallForHelp&) {
        line.show = app.help();
        return line;
    } catch (const CLI::CallForVersion& version) {
        line.show = std::string(version.what()) + "\n";
        return line;
    } catch (const CLI::ParseError& error) {
        throw UsageError(error.what());
    }

    line.nnodes = parse_nnodes(texts.nnodes);
    line.node_rank = bounded("--node-rank", texts.node_rank, 0, kMaxNodes);
    line.nproc_per_node = parse_nproc(texts.nproc_per_node);
    set_master(line, texts);
    set_networks(line, texts);
    line.run_id = texts.rdzv_id;
    line.role = texts.role;
    line.join_timeout_s = parse_rdzv_conf(texts.rdzv_conf, line.join_timeout_s);
    set_supervision(line, texts);
    set_output(line, texts, app);
    line.detach = texts.detach;
    line.module = texts.module;
    line.no_python = texts.no_python;
    line.python = texts.python;
    line.share_gpus = texts.share_gpus;
    line.gpu_bind = texts.gpu_bind;
    if (line.gpu_bind != "auto" && line.gpu_bind != "single" && line.gpu_bind != "all" &&
        line.gpu_bind != "none") {
        throw UsageError("--gpu-bind " + line.gpu_bind + ": must be auto, single, all or none");
    }
    check_together(line, texts);
    if (line.program.empty())
        throw UsageError("no program given; usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS…]");
    return line;
}

}  // namespace ddprun
