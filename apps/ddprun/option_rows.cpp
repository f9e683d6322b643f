#include "apps/ddprun/option_rows.hpp"

#include "apps/ddprun/cluster_rows.hpp"
#include "apps/ddprun/device_rows.hpp"
#include "apps/ddprun/option_values.hpp"
#include "apps/ddprun/program_rows.hpp"
#include "apps/ddprun/start_rows.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/port_range.hpp"

namespace ddprun::inline app {
namespace {

using Set = std::function<void(const std::string&)>;

// One part of the output's plan, whose grammar the launcher has.
template <class Text, class... Part>
Set output_part(OutputPlan& plan, Text OutputOptions::*text, Part OutputPlan::*... part) {
    return [&plan, text, part...](const std::string& value) {
        OutputOptions options;
        options.*text = value;
        OutputPlan parsed = value_or_throw<UsageError>(parse_output_options(options));
        ((plan.*part = std::move(parsed.*part)), ...);
    };
}

Set seconds_into(std::chrono::milliseconds& target, int least = 0) {
    return [&target, least](const std::string& text) {
        target = std::chrono::seconds(number(least, kMaxTimeoutSeconds)(text));
    };
}

// Has no effect with --standalone, whose row comes before, so that no value is wrong then.
Set unless_standalone(const CommandLine& line, Set set) {
    return [&line, set = std::move(set)](const std::string& text) {
        if (!line.standalone) set(text);
    };
}

OptionGroup node_rows(CommandLine& line) {
    return {
        "Nodes",
        {{"--nnodes", "N|MIN:MAX",
          "Number of nodes (those of the step, else 1)\nMIN:MAX: the job begins with MIN nodes or more, goes "
          "on with those that are "
          "left when one is lost, and takes in those that come.",
          [&line](const std::string& text) {
              const NodeCount count = parse_nnodes(text);
              line.nnodes = count.most;
              line.elasticity.min_nodes = count.least;
          },
          "PET_NNODES"},
         {"--spares", "N", "Of MIN:MAX nodes, so many wait without working until another one is lost (0)",
          into(line.elasticity.spares, number(0, kMaxNodes))},
         {"--resize", "WHEN",
          "When a node that comes later is let in: now, which restarts the workers; failure: with the next "
          "round; never: only for one that was lost (now)",
          into(line.elasticity.resize,
               one_of<Resize>(
                   {{"now", Resize::now}, {"failure", Resize::failure}, {"never", Resize::never}}))},
         {"--failover", "on|off",
          "Whether the job goes on when the node is lost that hosts the rendezvous, as far as it may without "
          "a node "
          "(on)\nA majority of the others meets at the first of them, which hosts it then; with etcd that "
          "decides who does, however few are left.",
          into(line.failover, one_of<bool>({{"on", true}, {"off", false}}))},
         {"--last-call", "S",
          "Seconds to wait for more than MIN nodes before the job begins; node 0's counts (30)",
          seconds_into(line.elasticity.last_call)},
         {"--node-rank", "R",
          "This node's number, 0 to N-1; node 0 hosts the rendezvous (0)\nNode 0 leaves last.",
          into(line.node_rank, number(0, kMaxNodes)), "PET_NODE_RANK"},
         {"--nproc-per-node", "P",
          "Workers on this node: a number, or gpu (one for each), xpu, cpu, auto; nodes may differ (1; under "
          "a "
          "scheduler one for each GPU)\n0: this node takes part without workers, for example to host. xpu: "
          "GPUs of Intel's; "
          "auto: GPUs if there are any, else CPUs.",
          into(line.nproc_per_node, parse_nproc), "PET_NPROC_PER_NODE"},
         {"--standalone", "",
          "One node, a free port and a job id of its own, whatever other options say of nodes and "
          "rendezvous\nOne "
          "node and a free port are the default.",
          into(line.standalone), "PET_STANDALONE"}}};
}

OptionGroup address_rows(CommandLine& line) {
    return {
        "Addresses",
        {{"--master-addr", "HOST",
          "Address or name of node 0, as the other nodes reach it (127.0.0.1)\nRequired for more than one "
          "node; on node 0 it must be one of that machine's own.",
          unless_standalone(line, into(line.master_addr, parse_master_addr)), "PET_MASTER_ADDR"},
         {"--master-port", "PORT", "Port on node 0 (a free one on a single node, else 29500)",
          unless_standalone(
              line, of_number(into(line.master_port, parsed_by(parse_port, "must be from 0 to 65535")))),
          "PET_MASTER_PORT"},
         {"--local-addr", "HOST",
          "Address of this node by which its workers are to reach the others (the one that reaches node "
          "0)\nIt has to "
          "be one of its own. On a single node, unless --master-addr is given, it is MASTER_ADDR.",
          into(line.local_addr, parse_master_addr), "PET_LOCAL_ADDR"},
         {"--listen", "WHERE",
          "auto: node 0 listens where it has to, and --master-addr must be an address of its own; any: on "
          "all its addresses (auto)\nIt has to on loopback and at --master-addr; any is for a --master-addr "
          "that is translated on the way, or a name that stands for another address on other nodes.",
          into(line.listen_any, one_of<bool>({{"auto", false}, {"any", true}}))},
         {"--net", "CIDR,…",
          "Networks by which the workers of different nodes reach each other, like 10.0.0.0/8; sets "
          "DDPRUN_NET (that of --master-addr)\nThe first one in which this node has an address decides on "
          "its interface, too; a node with none is refused.",
          [&line](const std::string& text) {
              parsed_by(parse_networks,
                        "must be networks like 10.0.0.0/8 or fd00::/8, with commas between")(text);
              line.networks = text;
          }},
         {"--port-range", "FIRST-LAST",
          "Ports for all listeners that are given none by number, here and of the workers, like 30000-30100; "
          "sets "
          "DDPRUN_PORT_RANGE (free ones of the system's)\nThe same on all nodes. Without --master-port node "
          "0 "
          "hosts the rendezvous at one of them, too, which the nodes agree on by the job's id.",
          [&line](const std::string& text) {
              line.port_range = parsed_by(parse_port_range,
                                          "must be FIRST-LAST, two ports from 1 to 65535 in order, like "
                                          "30000-30100")(text);
          }}}};
}

OptionGroup rendezvous_rows(CommandLine& line) {
    return {
        "Rendezvous",
        {{"--join-timeout", "S",
          "Seconds to wait for all nodes (900)\nOnce node 0 is reached, its own count.",
          seconds_into(line.join_timeout, 1)},
         {"--rdzv-backend", "NAME",
          "static: nodes are numbered by --node-rank, node 0 hosts the rendezvous; c10d: the agent on the "
          "machine of "
          "--rdzv-endpoint hosts it, and nodes need no numbers; etcd, or etcd-v2: likewise, but etcd at "
          "--rdzv-endpoint "
          "elects the host (static)\nThose without one are numbered: the host first, then in the order of a "
          "Slurm "
          "allocation's list, else by their host names.",
          unless_standalone(line, into(line.rdzv_backend, parse_rdzv_backend)), "PET_RDZV_BACKEND"},
         {"--rdzv-endpoint", "HOST[:PORT]",
          "Another way to write --master-addr and --master-port, and the stronger; with etcd where that is "
          "(port 2379), or "
          "several of its endpoints with commas between",
          unless_standalone(line, into(line.rdzv_endpoint, check_rdzv_endpoint)), "PET_RDZV_ENDPOINT"},
         {"--rdzv-id", "ID", "Job id, the same on all nodes (none)\nAgents with another one are refused.",
          into(line.run_id), "PET_RDZV_ID"},
         {"--allow-different", "",
          "Nodes may run different programs or arguments; otherwise only those with another --role may",
          into(line.allow_different)},
         {"--strict-env", "",
          "On node 0: refuse the job where nodes differ in program file, environment or GPU; otherwise a "
          "line warns of each difference\nA node that comes to a running job and differs from the others is "
          "refused alone. Compared are the file that is run, the variables NCCL_*, CUDA_*, "
          "PYTHON* and OMP_*, and GPU model and driver.",
          into(line.strict_env)},
         {"--heartbeat", "S",
          "Seconds without a sign of a node until it counts as lost; node 0's counts (5)\nLess than "
          "--join-timeout.",
          seconds_into(line.heartbeat, 1)},
         {"--rdzv-conf", "KEY=VALUE,…",
          "join_timeout=900: as --join-timeout, which is the stronger; last_call_timeout=30: as --last-call; "
          "is_host=1 or 0: whether this agent hosts, with c10d\n"
          "keep_alive_interval=5 times keep_alive_max_attempt=3: as --heartbeat, which is the stronger. "
          "With etcd: etcd_prefix=/torchelastic/p2p: under which its keys are; protocol=http, or https with "
          "cacert=FILE: who vouches for etcd, else those whom this machine trusts, and cert=FILE and "
          "key=FILE: "
          "what this agent shows of itself. "
          "torchrun's other keys have no effect.",
          into(line.rdzv_conf, parse_rdzv_conf), "PET_RDZV_CONF"}}};
}

OptionGroup security_rows(CommandLine& line) {
    return {
        "Who takes part",
        {{"--secret-file", "PATH",
          "The job's secret, the same on all nodes; -: one line of stdin (DDPRUN_SECRET, else "
          "~/.config/ddprun/secret)\nA file that nobody else may read. With a secret the agents of several "
          "nodes prove to each other that they have it, and all they say is encrypted; it is never taken "
          "from the command line, and the workers do not get it.",
          into(line.secret_file)},
         {"--auth", "WHEN",
          "Whether agents must prove that they have the secret. auto: where there is one; required: or else "
          "no job of several nodes; off: never (auto)\nA line auth = required in /etc/ddprun.conf makes it "
          "required for all.",
          into(line.auth,
               one_of<Auth>({{"auto", Auth::automatic}, {"required", Auth::required}, {"off", Auth::off}}))},
         {"--store", "WAY",
          "How workers of several nodes reach the store. door: through their own agents, encrypted; direct: "
          "all at node 0, in clear; auto: door where you gave a secret or said --auth required, else direct "
          "(auto)\nNode 0's counts. With door MASTER_ADDR and MASTER_PORT are a port on loopback; a program "
          "that opens ports of its own at MASTER_ADDR takes DDPRUN_MASTER_ADDR for that, or direct. The key "
          "that --hosts makes is none that you gave.",
          into(line.store_access, one_of<StoreAccess>({{"auto", StoreAccess::automatic},
                                                       {"door", StoreAccess::door},
                                                       {"direct", StoreAccess::direct}}))},
         {"--make-secret", "", "Make ~/.config/ddprun/secret, print its path and exit",
          into(line.makes_secret)}}};
}

OptionGroup supervision_rows(CommandLine& line) {
    return {
        "Supervision",
        {{"--shutdown-timeout,--grace", "S",
          "Seconds between the signal to stop and SIGKILL (30)\nAt half of them all processes of a worker "
          "get SIGTERM.",
          seconds_into(line.grace_period), "PET_SHUTDOWN_TIMEOUT, TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
         {"--signals-to-handle", "NAMES",
          "Signals that are passed on to all workers and end the job (SIGTERM,SIGINT,SIGHUP,SIGQUIT)",
          [&line](const std::string& text) {
              line.terminating_signals = parse_signals(text, line.unknown_signals);
              line.signals_text = text;
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

OptionGroup time_rows(CommandLine& line) {
    return {"Times (node 0's flags count)",
            {{"--time-limit", "DURATION",
              "End the job after this time, like 90s or 2h, as SIGTERM to ddprun would\nFrom node 0's start, "
              "joining included; on other nodes it has no effect.",
              [&line](const std::string& text) { parse_time_limit(text, line.times); }},
             {"--warn-before", "S[:SIGNAL]",
              "Send all workers a signal this long before the limit (USR1)\nThe limit is --time-limit or "
              "$SLURM_JOB_END_TIME, whichever is earlier; if the signal is one of --requeue-on, it counts as "
              "received. Less than --time-limit.",
              [&line](const std::string& text) { parse_warn_before(text, line.times); }},
             {"--exit-wait", "S[:kill]",
              "When a rank has ended with 0 and others still run after this time, one line on node 0 names "
              "them\nWith :kill they are then ended, as after a failure; the exit code is 124.",
              into(line.exit_wait, parse_exit_wait)},
             {"--hang-timeout", "S", "Reserved for a later version; refused until then",
              [](const std::string&) -> void {
                  throw BadValue("reserved for a later version, not built yet");
              }}}};
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
         {"--same-failure", "N",
          "The same failure so many times in a row ends the job, restarts left or not; 0: never (3)\n"
          "The same: exit code, message and last lines, whatever rank, node and numbers they name. A change "
          "of --progress-file begins the count anew.",
          into(restarts.same_failure, parse_same_failure)},
         {"--exclude-after", "N",
          "A node whose workers fail first in so many rounds is left out of the next one, where a waiting "
          "node or "
          "MIN of --nnodes allows it; 0: never (3)\nThe node that hosts the rendezvous stays. A machine that "
          "is left "
          "out gets no place again; for one more round --same-failure and --min-uptime do not end the job.",
          into(line.elasticity.exclude_after, number(0, kMaxRestarts))},
         {"--on-failure", "PROGRAM",
          "Ask this program about each failure: it gets the failure as JSON on stdin and says restart, stop "
          "or "
          "exclude NODE on stdout\nOn the node that hosts the rendezvous, within 10 s. Its restart is "
          "stronger than "
          "the options above, but for --max-restarts; where it does not answer, these decide.",
          into(line.on_failure)}}};
}

OptionGroup file_rows(CommandLine& line) {
    OutputPlan& plan = line.output;
    return {
        "Output",
        {{"--redirects,-r", "V|R:V,…",
          "Streams to files only: 0 none, 1 stdout, 2 stderr, 3 both, for all or by local rank\nAs 0:3,1:1, "
          "for instance.",
          of_number(output_part(plan, &OutputOptions::redirects, &OutputPlan::redirects)), "PET_REDIRECTS"},
         {"--tee,-t", "V|R:V,…", "Streams to files and to the console, with a header",
          of_number(output_part(plan, &OutputOptions::tee, &OutputPlan::tee)), "PET_TEE"},
         {"--log-dir", "DIR",
          "Where files go; /dev/null: no files (a new folder in TMPDIR)\nHere, in --log-file, "
          "--events and --result-file %t is when the job was started, %j its --rdzv-id, %h the host, %r the "
          "number of the node, %% a %.",
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
         {"--log-file", "FILE",
          "Append the launcher's own lines to this file, all that --verbose shows\nWith time, node, level "
          "and "
          "thread, whatever the console shows; tried before anything starts. Nodes may share one.",
          into(line.log_file, path_text)},
         {"--events", "FILE",
          "Append what happens to this file, as lines of JSON: torchrun's events and ddprun's own\nPhases of "
          "the "
          "start, rounds, restarts, resizes, signals, each worker's end with its CPU time and memory; tried "
          "before anything starts. Each node writes its own events.",
          into(line.events, path_text)},
         {"--result-file", "PATH",
          "Write how the job ended to this file, as JSON\nOutcome, exit code, first failure, every rank's "
          "end, restarts, times; tried before anything starts, written when the job has ended (until then "
          "there is no file, or the old one); /dev/stdout and a FIFO will do.",
          into(line.result_file, path_text)}}};
}

OptionGroup console_rows(CommandLine& line) {
    OutputPlan& plan = line.output;
    return {
        "Console",
        {{"--prefix", "[=TEMPLATE]",
          "Put the host and rank in front of each line, or TEMPLATE with {host} {rank} {local_rank} {role} "
          "{time} {stream}\nBy variable or file, 1 or true stands for no template.",
          output_part(plan, &OutputOptions::prefix, &OutputPlan::prefix)},
         {"--show", "RANKS",
          "Only these global ranks on the console, like 0,8-15\nRanks that the job does not have are "
          "refused, here and in --local-ranks-filter, --wrap, --tty, -r and -t.",
          output_part(plan, &OutputOptions::show, &OutputPlan::ranks_shown)},
         {"--local-ranks-filter", "RANKS", "Only these local ranks on the console",
          of_number(output_part(plan, &OutputOptions::local_ranks_filter, &OutputPlan::local_ranks_shown)),
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
                  line.wraps.push_back(value_or_throw<UsageError>(parse_wrap(text)));
              },
          .repeated = true}}};
}

}  // namespace

std::vector<OptionGroup> option_rows(CommandLine& line) {
    return {{"", {config_row()}}, node_rows(line),       address_rows(line),     cluster_rows(line),
            start_rows(line),     rendezvous_rows(line), security_rows(line),    program_rows(line),
            variable_rows(line),  device_rows(line),     supervision_rows(line), time_rows(line),
            restart_rows(line),   file_rows(line),       console_rows(line),     debugging_rows(line),
            torchrun_rows(line)};
}

}  // namespace ddprun::inline app
