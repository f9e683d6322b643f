#include "apps/ddprun/option_rows.hpp"

#include "apps/ddprun/option_values.hpp"
#include "rendezvous/net/network.hpp"

namespace ddprun {
namespace {

using Set = std::function<void(const std::string&)>;

// The largest values taken; beyond them a number is a typing error.
constexpr int kMaxRestarts = 1'000'000;
constexpr int kMaxRank = 100'000'000;

// One part of the output's plan, whose grammar the launcher has.
template <class Text, class... Part>
Set output_part(OutputPlan& plan, Text OutputOptions::*text, Part OutputPlan::*... part) {
    return [&plan, text, part...](const std::string& value) {
        OutputOptions options;
        options.*text = value;
        auto parsed = parse_output_options(options);
        if (const auto* wrong = std::get_if<std::string>(&parsed)) throw UsageError(*wrong);
        ((plan.*part = std::move(std::get<OutputPlan>(parsed).*part)), ...);
    };
}

Set seconds_into(std::chrono::milliseconds& target) {
    return [&target](const std::string& text) {
        target = std::chrono::seconds(number(0, kMaxTimeoutSeconds)(text));
    };
}

OptionGroup node_rows(CommandLine& line) {
    return {
        "Nodes",
        {{"--nnodes", "N", "Number of nodes (1)", into(line.nnodes, parse_nnodes), "PET_NNODES"},
         {"--node-rank", "R",
          "This node's number, 0 to N-1; node 0 hosts the rendezvous (0)\nNode 0 leaves last.",
          into(line.node_rank, number(0, kMaxNodes)), "PET_NODE_RANK"},
         {"--nproc-per-node", "P",
          "Workers on this node: a number, or gpu (one for each), cpu, auto; nodes may differ (1)\nauto: "
          "GPUs "
          "if there are any, else CPUs.",
          into(line.nproc_per_node, parse_nproc), "PET_NPROC_PER_NODE"},
         {"--master-addr", "HOST",
          "Address or name of node 0, as the other nodes reach it (127.0.0.1)\nRequired for more than one "
          "node; on node 0 it must be one of that machine's own.",
          into(line.master_addr, parse_master_addr), "PET_MASTER_ADDR"},
         {"--master-port", "PORT", "Port on node 0 (a free one on a single node, else 29500)",
          into(line.master_port, parsed_by(parse_port, "must be from 0 to 65535")), "PET_MASTER_PORT"},
         {"--listen", "WHERE",
          "auto: node 0 listens where it has to, and --master-addr must be an address of its own; any: on "
          "all its addresses (auto)\nIt has to on loopback and at --master-addr for one node, on all its "
          "addresses for several; any is for a --master-addr that is translated on the way.",
          into(line.listen_any, one_of<bool>({{"auto", false}, {"any", true}}))},
         {"--net", "CIDR,…",
          "Networks by which the workers of different nodes reach each other, like 10.0.0.0/8; sets "
          "DDPRUN_NET (that of --master-addr)",
          [&line](const std::string& text) {
              parsed_by(parse_networks,
                        "must be networks like 10.0.0.0/8 or fd00::/8, with commas between")(text);
              line.networks = text;
          }},
         {"--standalone", "", "One node and a free port; the default on one node", into(line.standalone),
          "PET_STANDALONE"}}};
}

OptionGroup rendezvous_rows(CommandLine& line) {
    return {"Rendezvous",
            {{"--rdzv-backend", "NAME", "The only one is static", check_rdzv_backend, "PET_RDZV_BACKEND"},
             {"--rdzv-endpoint", "HOST[:PORT]", "Another way to write --master-addr and --master-port",
              into(line.rdzv_endpoint, check_rdzv_endpoint), "PET_RDZV_ENDPOINT"},
             {"--rdzv-id", "ID", "Job id, the same on all nodes (none)\nAgents with another one are refused.",
              into(line.run_id), "PET_RDZV_ID"},
             {"--allow-different", "",
              "Nodes may run different programs or arguments; otherwise only those with another --role may",
              into(line.allow_different)},
             {"--rdzv-conf", "KEY=VALUE,…", "join_timeout=900: seconds to wait for all nodes",
              [&line](const std::string& text) {
                  if (const auto timeout = parse_rdzv_conf(text)) line.join_timeout = *timeout;
              },
              "PET_RDZV_CONF"}}};
}

OptionGroup program_rows(CommandLine& line) {
    return {"Program",
            {{"--module,-m", "", "The program is a Python module", into(line.module), "PET_MODULE"},
             {"--no-python", "", "Execute the program itself, also if its name ends in .py",
              into(line.no_python), "PET_NO_PYTHON"},
             {"--python", "",
              "Run the program by python3 -u, whatever its name\nSo run those in .py: by $PYTHON_EXEC, else "
              "python3.",
              into(line.python)},
             {"--role", "NAME", "Label of these workers, ROLE_NAME (default)", into(line.role), "PET_ROLE"}}};
}

OptionGroup device_rows(CommandLine& line) {
    return {"Devices",
            {{"--gpu-bind", "HOW",
              "single: a worker sees its own GPU; all: it sees all and uses LOCAL_RANK; none: untouched; "
              "auto: all for Python programs, single for others (auto)",
              into(line.gpu_bind, parsed_by(parse_gpu_bind, "must be auto, single, all or none"))},
             {"--share-gpus", "",
              "Allow more workers than GPUs\nWithout it that is refused before anything starts.",
              into(line.share_gpus)}}};
}

OptionGroup supervision_rows(CommandLine& line) {
    return {
        "Supervision",
        {{"--shutdown-timeout,--grace", "S",
          "Seconds between the signal to stop and SIGKILL (30)\nAt half of them all processes of a worker "
          "get SIGTERM.",
          seconds_into(line.shutdown_timeout), "PET_SHUTDOWN_TIMEOUT, TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
         {"--signals-to-handle", "NAMES",
          "Signals that are passed on to all workers and end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)",
          [&line](const std::string& text) {
              line.terminating_signals = parse_signals(text, line.unknown_signals);
          },
          "PET_SIGNALS_TO_HANDLE"},
         {"--forward", "A,B=C",
          "Signals that are passed on to all workers without ending the job; B arrives as C\nTo any agent; "
          "every worker of the job gets it once.",
          into(line.forwarded_signals, parse_forward)},
         {"--requeue-on", "NAMES",
          "Signals passed on as by --forward; if all workers end with 0 afterwards, the exit code is 75",
          into(line.requeue_signals, parse_requeue_on)},
         {"--signal-scope", "WHO",
          "Whom a signal reaches at first: leader: the worker's own process; group: its process group; "
          "auto: the worker, and what is below processes that do not handle the signal (auto)",
          into(line.signal_scope, parsed_by(parse_signal_scope, "must be auto, leader or group"))},
         {"--detach", "",
          "Return when the workers run, and print the job's id; see ddpctl --help\nNot with --tty.",
          into(line.detach)}}};
}

OptionGroup restart_rows(CommandLine& line) {
    RestartOptions& restarts = line.restarts;
    const auto codes = parsed_by(parse_code_ranges, "must be exit codes from 1 to 255, like 1,64-78");
    return {
        "Restarts (node 0's flags count)",
        {{"--max-restarts", "N", "Restarts of the whole job after failures (0)\nWhichever node fails.",
          into(restarts.max_restarts, number(0, kMaxRestarts)), "PET_MAX_RESTARTS"},
         {"--restart-on", "CODES", "Restart only after these exit codes, like 1,64-78\n128+n for signal n.",
          into(restarts.restart_on, codes)},
         {"--no-restart-on", "CODES", "Never restart after these exit codes",
          into(restarts.no_restart_on, codes)},
         {"--backoff", "MIN..MAX", "Pause before a restart, doubled each time, like 1s..5m (0)\nWith jitter.",
          [&restarts](const std::string& text) {
              std::tie(restarts.backoff_min, restarts.backoff_max) = parse_backoff(text);
          }},
         {"--min-uptime", "S",
          "A round this long was progress; 3 restarts in a row without progress end the job (10)",
          into(restarts.min_uptime, duration_of)},
         {"--progress-file", "PATH", "Its change during a round was progress\nIn place of --min-uptime.",
          [&line](const std::string& text) {
              line.restarts.has_progress_file = true;
              line.progress_file = text;
          }},
         {"--monitor-interval", "S", "No effect: nothing is polled", [](const std::string&) {},
          "PET_MONITOR_INTERVAL"}}};
}

OptionGroup file_rows(CommandLine& line) {
    OutputPlan& plan = line.output;
    return {
        "Output",
        {{"--redirects,-r", "V|R:V,…",
          "Streams to files only: 0 none, 1 stdout, 2 stderr, 3 both, for all or by local rank\nAs 0:3,1:1, "
          "for instance.",
          output_part(plan, &OutputOptions::redirects, &OutputPlan::redirects), "PET_REDIRECTS"},
         {"--tee,-t", "V|R:V,…", "Streams to files and to the console, with a header",
          output_part(plan, &OutputOptions::tee, &OutputPlan::tee), "PET_TEE"},
         {"--log-dir", "DIR", "Where files go; /dev/null: no files (a new folder in TMPDIR)",
          output_part(plan, &OutputOptions::log_dir, &OutputPlan::log_dir, &OutputPlan::files),
          "PET_LOG_DIR"},
         {"--log-max", "SIZE", "Each file keeps its head and its tail, like 100M",
          output_part(plan, &OutputOptions::log_max, &OutputPlan::log_max)},
         {"--duplicate-stdout-filters", "TEXTS",
          "Lines with one of these texts are also copied to filtered_stdout.log",
          output_part(plan, &OutputOptions::duplicate_stdout_filters, &OutputPlan::out_filters),
          "PET_DUPLICATE_STDOUT_FILTERS"},
         {"--duplicate-stderr-filters", "TEXTS", "Likewise, filtered_stderr.log",
          output_part(plan, &OutputOptions::duplicate_stderr_filters, &OutputPlan::err_filters),
          "PET_DUPLICATE_STDERR_FILTERS"},
         {"--result-file", "PATH",
          "Write how the job ended to this file, as JSON\nOutcome, exit code, first failure, every rank's "
          "end, restarts, times; tried before anything starts, written when the job has ended (until then "
          "there is no file, or the old one); /dev/stdout and a FIFO will do.",
          into(line.result_file)}}};
}

OptionGroup console_rows(CommandLine& line) {
    OutputPlan& plan = line.output;
    return {
        "Console",
        {{"--prefix", "[=TEMPLATE]",
          "Put the host and rank in front of each line, or TEMPLATE with {host} {rank} {local_rank} {role} "
          "{time} {stream}\nBy variable or file, true stands for no template.",
          output_part(plan, &OutputOptions::prefix, &OutputPlan::prefix)},
         {"--show", "RANKS",
          "Only these global ranks on the console, like 0,8-15\nRanks that the job does not have are "
          "refused, here and in --local-ranks-filter, --wrap, --tty, -r and -t.",
          output_part(plan, &OutputOptions::show, &OutputPlan::ranks_shown)},
         {"--local-ranks-filter", "RANKS", "Only these local ranks on the console",
          output_part(plan, &OutputOptions::local_ranks_filter, &OutputPlan::local_ranks_shown),
          "PET_LOCAL_RANKS_FILTER"},
         {"--log-line-prefix-template", "TEMPLATE",
          "The header of --tee, with ${role_name} ${rank} ${local_rank} ${hostname}",
          output_part(plan, &OutputOptions::log_line_prefix_template, &OutputPlan::tee_header),
          "PET_LOG_LINE_PREFIX_TEMPLATE, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
         {"--quiet,-q", "", "The launcher says only errors and the report", into(line.quiet)},
         {"--verbose,-v", "",
          "The launcher says what it does: endpoint, ranks, pids, ends, why it stops workers\nAlso the "
          "interpreter and the log folder.",
          into(line.verbose)}}};
}

OptionGroup debugging_rows(CommandLine& line) {
    return {
        "Debugging",
        {{"--tty", "RANK",
          "This rank has the launcher's stdin, stdout and stderr; the others have /dev/null for stdin\nFor a "
          "debugger, with --wrap in front.",
          into(line.tty_rank, number(0, kMaxRank))},
         {.names = "--wrap",
          .metavar = "RANKS:COMMAND",
          .help =
              "Put COMMAND (gdb, nsys, …) in front of these ranks; %r %l %h\nThe rank, the local rank, the "
              "host; may be repeated.",
          .set =
              [&line](const std::string& text) {
                  auto wrap = parse_wrap(text);
                  if (const auto* wrong = std::get_if<std::string>(&wrap)) throw UsageError(*wrong);
                  line.wraps.push_back(std::get<Wrap>(wrap));
              },
          .repeated = true}}};
}

}  // namespace

std::vector<OptionGroup> option_rows(CommandLine& line) {
    return {{"", {config_row()}}, node_rows(line),        rendezvous_rows(line), program_rows(line),
            device_rows(line),    supervision_rows(line), restart_rows(line),    file_rows(line),
            console_rows(line),   debugging_rows(line)};
}

}  // namespace ddprun
