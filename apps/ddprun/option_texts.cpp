#include "apps/ddprun/option_texts.hpp"

#include <memory>

namespace ddprun {
namespace {

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

void add_nodes(CLI::App& app, OptionTexts& texts) {
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
    section.value(
        "--listen", texts.listen, "WHERE",
        "auto: node 0 listens where it has to, and --master-addr must be an address of its own; any: "
        "on all its addresses (auto)",
        nullptr);
    section.value("--net", texts.networks, "CIDR,…",
                  "Networks by which the workers of different nodes reach each other, like 10.0.0.0/8; sets "
                  "DDPRUN_NET (that of --master-addr)",
                  nullptr);
    section.flag("--standalone", texts.standalone, "One node and a free port; the default on one node",
                 "PET_STANDALONE");
}

void add_rendezvous(CLI::App& app, OptionTexts& texts) {
    Section section{app, "Rendezvous"};
    section.value("--rdzv-backend", texts.rdzv_backend, "NAME", "static", "PET_RDZV_BACKEND");
    section.value("--rdzv-endpoint", texts.rdzv_endpoint, "HOST[:PORT]",
                  "Another way to write --master-addr and --master-port", "PET_RDZV_ENDPOINT");
    section.value("--rdzv-id", texts.rdzv_id, "ID", "Job id, the same on all nodes (none)", "PET_RDZV_ID");
    section.flag(
        "--allow-different", texts.allow_different,
        "Nodes may run different programs or arguments; otherwise only those with another --role may",
        nullptr);
    section.value("--rdzv-conf", texts.rdzv_conf, "KEY=VALUE,…",
                  "join_timeout=900: seconds to wait for all nodes", "PET_RDZV_CONF");
}

void add_program(CLI::App& app, OptionTexts& texts) {
    Section section{app, "Program"};
    section.flag("-m,--module", texts.module, "The program is a Python module", "PET_MODULE");
    section.flag("--no-python", texts.no_python, "Execute the program itself, also if its name ends in .py",
                 "PET_NO_PYTHON");
    section.flag("--python", texts.python, "Run the program by python3 -u, whatever its name", nullptr);
    section.value("--role", texts.role, "NAME", "Label of these workers, ROLE_NAME (default)", "PET_ROLE");
}

void add_devices(CLI::App& app, OptionTexts& texts) {
    Section section{app, "Devices"};
    section.value("--gpu-bind", texts.gpu_bind, "HOW",
                  "single: a worker sees its own GPU; all: it sees all and uses LOCAL_RANK; none: untouched; "
                  "auto: all for Python programs, single for others (auto)",
                  nullptr);
    section.flag("--share-gpus", texts.share_gpus, "Allow more workers than GPUs", nullptr);
}

void add_supervision(CLI::App& app, OptionTexts& texts) {
    Section section{app, "Supervision"};
    section.value("--shutdown-timeout,--grace", texts.shutdown_timeout, "S",
                  "Seconds between the signal to stop and SIGKILL (30)", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
    section.value("--signals-to-handle", texts.signals_to_handle, "NAMES",
                  "Signals that are passed on to all workers and end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)",
                  "PET_SIGNALS_TO_HANDLE");
    section.value("--forward", texts.forward, "A,B=C",
                  "Signals that are passed on to all workers without ending the job; B arrives as C",
                  nullptr);
    section.value(
        "--requeue-on", texts.requeue_on, "NAMES",
        "Signals passed on as by --forward; if all workers end with 0 afterwards, the exit code is 75",
        "DDPRUN_REQUEUE_ON");
    section.value(
        "--signal-scope", texts.signal_scope, "WHO",
        "Whom a signal reaches at first: leader: the worker's own process; group: its process group; "
        "auto: the worker, and what is below processes that do not handle the signal (auto)",
        "DDPRUN_SIGNAL_SCOPE");
    section.flag("--detach", texts.detach,
                 "Return when the workers run, and print the job's id; see ddpctl --help", nullptr);
}

void add_restarts(CLI::App& app, OptionTexts& texts) {
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

void add_output(CLI::App& app, OptionTexts& texts) {
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

void add_debugging(CLI::App& app, OptionTexts& texts) {
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

}  // namespace

void add_options(CLI::App& app, OptionTexts& texts) {
    app.formatter(std::make_shared<HelpText>());
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
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

}  // namespace ddprun
