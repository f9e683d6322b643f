// The options that say what the workers run, where and with what, how they are supervised, and where their output goes.
#include <fmt/core.h>

#include <tuple>

#include "apps/ddprun/options/option_values.hpp"
#include "apps/ddprun/options/options.hpp"

namespace ddprun::inline app {
namespace {

using Text = const std::string&;

// For an option that is accepted only because torchrun has it: a wrong value is one here, too.
std::function<void(Text)> no_effect(const std::vector<std::string>& names) {
    std::vector<std::pair<std::string, bool>> values;
    for (const std::string& name : names) values.emplace_back(name, true);
    return one_of<bool>(std::move(values));
}

// One part of the output's plan, whose grammar the launcher has.
template <class Member, class... Part>
std::function<void(Text)> output_part(OutputPlan& plan, Member OutputOptions::*text,
                                      Part OutputPlan::*... part) {
    return [&plan, text, part...](Text value) {
        OutputOptions options;
        options.*text = value;
        OutputPlan parsed = value_or_throw<UsageError>(parse_output_options(options));
        ((plan.*part = std::move(parsed.*part)), ...);
    };
}

OptionGroup program_rows(CommandLine& line) {
    const auto add_program = [&line](Text text) {
        line.rank_programs.push_back(value_or_throw<UsageError>(
            parse_rank_command("--program", text, "'0:./server --port 7' or 'local=1:./helper'")));
    };
    return {
        "Program",
        {OptionRow{"--module,-m", "", "The program is a Python module", into(line.module)}
             .of_torchrun("PET_MODULE")
             .common(),
         OptionRow{"--no-python", "", "Execute the program itself, also if its name ends in .py",
                   into(line.no_python)}
             .of_torchrun("PET_NO_PYTHON"),
         OptionRow{"--python", "",
                   "Run the program by python3 -u, whatever its name\nSo run those in .py, folders with "
                   "__main__.py, zip applications, and files that cannot be executed: by $PYTHON_EXEC, else "
                   "python3.",
                   into(line.python)},
         OptionRow{"--run-path", "",
                   "Python runs the program as a path, by runpy.run_path\nAn exception is written to "
                   "$TORCHELASTIC_ERROR_FILE without the program's doing. Stronger than --module and "
                   "--no-python.",
                   into(line.run_path)}
             .of_torchrun("PET_RUN_PATH"),
         OptionRow{"--stdin", "WHO",
                   "Who reads ddprun's own stdin: a global rank, all, or none\nThe others have /dev/null. By "
                   "all the workers of a node share it, as torchrun's do: what one has read no other one "
                   "gets.",
                   into(line.standard_input, parse_standard_input)}
             .by_default("rank 0, unless it is a terminal")
             .contradicts_hosts("no host has this standard input"),
         OptionRow{"--program", "RANKS:COMMAND",
                   "These ranks (0,8-15; local=0; *) run COMMAND in place of PROGRAM\nMay be repeated; the "
                   "first that names a rank counts. With '*:…' among them PROGRAM may be left out.",
                   add_program}
             .any_number_of_times()
             .counts_on(Scope::all_nodes),
         OptionRow{"--local-cache", "",
                   "Caches of Triton, Inductor, CUDA and PyTorch's extensions in a folder of this machine, "
                   "for this job\nIn TMPDIR, removed at the end; where a variable like TRITON_CACHE_DIR is "
                   "set, it stays.",
                   into(line.local_cache)},
         OptionRow{"--role", "NAME", "Label of these workers, ROLE_NAME", into(line.role)}
             .by_default(line.role)
             .of_torchrun("PET_ROLE")}};
}

std::pair<std::string, std::string> parse_variable(Text text) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        throw BadValue("must be NAME=VALUE; NAME= for an empty value");
    return {text.substr(0, equals), text.substr(equals + 1)};
}

// RANKS:NAME=VALUE, the ranks as those of --program.
RankVariable parse_rank_variable(Text text) {
    constexpr std::string_view kLocal = "local=";
    const auto colon = text.find(':');
    if (colon == std::string::npos) throw BadValue("must be RANKS:NAME=VALUE, like 3:NCCL_DEBUG=INFO");
    std::string_view ranks = std::string_view(text).substr(0, colon);
    RankVariable variable;
    variable.local = ranks.starts_with(kLocal);
    if (variable.local) ranks.remove_prefix(kLocal.size());
    variable.ranks = value_or_throw<BadValue>(parse_rank_set(ranks));
    std::tie(variable.name, variable.value) = parse_variable(text.substr(colon + 1));
    return variable;
}

OptionGroup variable_rows(CommandLine& line) {
    return {"Workers' variables",
            {OptionRow{"--env", "NAME=VALUE", "Set a variable for all workers\nMay be repeated.",
                       [&line](Text text) { line.variables.push_back(parse_variable(text)); }}
                 .any_number_of_times()
                 .common(),
             OptionRow{
                 "--env-rank", "RANKS:NAME=VALUE",
                 "Set a variable for these ranks (0,8-15; local=0; *)\nMay be repeated; the last one counts.",
                 [&line](Text text) { line.rank_variables.push_back(parse_rank_variable(text)); }}
                 .any_number_of_times(),
             OptionRow{
                 "--clean-env", "",
                 "Workers do not inherit ddprun's own variables\nBut HOME, USER, LOGNAME, SHELL, PATH, TERM, "
                 "LANG, LANGUAGE, LC_*, TZ, TMPDIR, HOSTNAME and the masks of GPUs (CUDA_VISIBLE_DEVICES and "
                 "CUDA_DEVICE_ORDER, HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK, "
                 "GPU_DEVICE_ORDINAL); with --hosts those of the host they run on.",
                 into(line.clean_environment)}}};
}

OptionGroup device_rows(CommandLine& line) {
    const auto numa = parsed_by(parse_numa_binding, "must be node, socket, exclusive or core-complex");
    OptionRow numa_binding{
        "--numa-binding", "HOW",
        "Bind to CPUs as torchrun says it. node: the CPUs of its GPU's NUMA node; socket: of that node's "
        "socket; exclusive: cores of its own there; core-complex: those that share one last-level cache\n"
        "exclusive refuses too few cores.",
        into(line.numa_binding, numa)};
    numa_binding.is_torchruns = true;
    return {
        "Devices",
        {OptionRow{
             "--gpu-bind", "HOW",
             "single: a worker sees its own GPU; all: it sees all and uses LOCAL_RANK; none: untouched; "
             "auto: single for a binary, all for whatever may run another program\nA binary that is no "
             "interpreter, shell or wrapper (bash, env, numactl, uv, …), by its name and that of the "
             "file. Python in any clothes counts GPUs by LOCAL_RANK.",
             into(line.gpu_bind, parsed_by(parse_gpu_bind, "must be auto, single, all or none"))}
             .by_default("auto")
             .common(),
         OptionRow{"--share-gpus", "",
                   "Allow more workers than GPUs\nWithout it that is refused before anything starts.",
                   into(line.share_gpus)},
         OptionRow{
             "--virtual-local-rank", "",
             "Every worker has LOCAL_RANK=0, and sees its own GPU only\nBy CUDA_VISIBLE_DEVICES, or what "
             "AMD's and Intel's GPUs have for it; without any GPU that is the local rank.",
             into(line.virtual_local_rank)}
             .of_torchrun("PET_VIRTUAL_LOCAL_RANK"),
         OptionRow{"--bind", "HOW",
                   "Which CPUs a worker may run on, of those that ddprun may use. cores: cores of its own; "
                   "numa: those of one NUMA node; none: all\nNear its GPU where it has one, else all workers "
                   "get equal parts. Its memory is taken from there, too.",
                   into(line.cpu_bind, parsed_by(parse_bind, "must be cores, numa or none"))}
             .by_default("none"),
         std::move(numa_binding),
         OptionRow{"--rank-order", "BY",
                   "In which order the nodes have their ranks: node, by their numbers; topology, by the "
                   "switches that Slurm names in SLURM_TOPOLOGY_ADDR; or a file of host names in that order\n"
                   "GROUP_RANK goes by it, too; node 0 hosts the rendezvous all the same. Nodes of which "
                   "nothing is known come last. For a file that is called node or topology write ./node.",
                   into(line.rank_order_by)}
             .by_default(line.rank_order_by),
         OptionRow{"--dry-run", "",
                   "Print where each worker of this node would run (CPUs, NUMA node, GPU, NIC) and what, and "
                   "exit\nNothing is connected to and nothing started.",
                   into(line.dry_run)}
             .tagged(kForStarter),
         OptionRow{"--check", "",
                   "Look at this node before anything starts, as ddprun doctor does, and take no part in a "
                   "job where there is a problem\nOne line for each problem, and exit code 71. Of several "
                   "nodes the others begin without this one where MIN of --nnodes allows that, else the job "
                   "ends. Only what takes a second at most: neither names nor Python. Not with --dry-run or "
                   "--adapt.",
                   into(line.check)},
         OptionRow{"--explain", "",
                   "Print the whole plan with the source of each value, and exit\nWhat the cluster tells and "
                   "who says otherwise, options and who set them, addresses and ports, GPUs and CPUs, each "
                   "worker's command and what its environment has over the inherited one. Nothing is "
                   "connected to and nothing started.",
                   into(line.explain)}
             .common()
             .tagged(kForStarter),
         OptionRow{"--json", "", "What --explain and --dry-run print, as JSON", into(line.json)}.tagged(
             kForStarter)}};
}

OptionGroup supervision_rows(CommandLine& line) {
    const auto set_signals = [&line](Text text) {
        line.terminating_signals = parse_signals(text, line.unknown_signals);
        line.signals_text = text;
    };
    return {
        "Supervision",
        {OptionRow{
             "--shutdown-timeout,--grace", "S",
             "Seconds between the signal to stop and SIGKILL\nAt half of them all processes of a worker "
             "get SIGTERM.",
             seconds_into(line.grace_period)}
             .by_default(whole_seconds(line.grace_period))
             .of_torchrun("PET_SHUTDOWN_TIMEOUT, TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
             .shows("grace", [&line] { return seconds_text(line.grace_period); }, {"--shutdown-timeout"}),
         OptionRow{"--signals-to-handle", "NAMES",
                   "Signals that are passed on to all workers and end the job", set_signals}
             .by_default(line.signals_text)
             .of_torchrun("PET_SIGNALS_TO_HANDLE"),
         OptionRow{"--forward", "A,B=C",
                   "Signals that are passed on to all workers without ending the job; B arrives as C\nTo any "
                   "agent; every worker of the job gets it once.",
                   into(line.forwarded_signals, parse_forward)},
         OptionRow{
             "--requeue-on", "NAMES",
             "Signals passed on as by --forward; if all workers end with 0 afterwards, the exit code is "
             "75",
             into(line.requeue_signals, parse_requeue_on)},
         OptionRow{"--signal-scope", "WHO",
                   "Whom a signal reaches at first: leader: the worker's own process; group: its process "
                   "group; auto: the worker, and what is below processes that do not handle the signal",
                   into(line.signal_scope, parsed_by(parse_signal_scope, "must be auto, leader or group"))}
             .by_default("auto"),
         OptionRow{"--detach", "",
                   "Return when the workers run, and print the job's id; see ddpctl --help\nNot with --tty.",
                   into(line.detach)}
             .common()
             .contradicts_hosts("the terminal is where all hosts' output comes to")}};
}

OptionGroup time_rows(CommandLine& line) {
    const auto refuse = [](Text) -> void { throw BadValue("reserved for a later version, not built yet"); };
    OptionGroup group{
        "Times",
        {OptionRow{"--time-limit", "DURATION",
                   "End the job after this time, like 90s or 2h, as SIGTERM to ddprun would\nFrom node 0's "
                   "start, joining included; on other nodes it has no effect.",
                   [&line](Text text) { parse_time_limit(text, line.times); }}
             .common(),
         OptionRow{
             "--warn-before", "S[:SIGNAL]",
             "Send all workers a signal this long before the limit (USR1)\nThe limit is --time-limit or "
             "$SLURM_JOB_END_TIME, whichever is earlier; if the signal is one of --requeue-on, it counts "
             "as received. Less than --time-limit.",
             [&line](Text text) { parse_warn_before(text, line.times); }},
         OptionRow{"--exit-wait", "S[:kill]",
                   "When a rank has ended with 0 and others still run after this time, one line on node 0 "
                   "names them\nWith :kill they are then ended, as after a failure; the exit code is 124.",
                   into(line.exit_wait, parse_exit_wait)},
         OptionRow{"--hang-timeout", "S", "Reserved for a later version; refused until then", refuse}}};
    for (OptionRow& row : group.rows) row.scope = Scope::node_0;
    return group;
}

OptionGroup restart_rows(CommandLine& line) {
    RestartOptions& restarts = line.restarts;
    const auto codes = parsed_by(parse_code_ranges, "must be exit codes from 1 to 255, like 1,64-78");
    const auto set_backoff = [&restarts](Text text) {
        std::tie(restarts.backoff_min, restarts.backoff_max) = parse_backoff(text);
    };
    const auto set_progress_file = [&line](Text text) {
        line.restarts.has_progress_file = true;
        line.progress_file = text;
    };
    OptionGroup group{
        "Restarts",
        {OptionRow{"--max-restarts", "N", "Restarts of the whole job after failures\nWhichever node fails.",
                   into(restarts.max_restarts, number(0, kMaxRestarts))}
             .by_default(std::to_string(restarts.max_restarts))
             .of_torchrun("PET_MAX_RESTARTS")
             .common()
             .shows("restarts", [&restarts] { return std::to_string(restarts.max_restarts); },
                    {"--max-restarts"}),
         OptionRow{"--restart-on", "CODES",
                   "Restart only after these exit codes, like 1,64-78\n128+n for signal n.",
                   into(restarts.restart_on, codes)},
         OptionRow{"--no-restart-on", "CODES", "Never restart after these exit codes",
                   into(restarts.no_restart_on, codes)},
         OptionRow{"--backoff", "MIN..MAX",
                   "Pause before a restart, doubled each time, like 1s..5m\nWith jitter.", set_backoff}
             .by_default(whole_seconds(restarts.backoff_min)),
         OptionRow{"--min-uptime", "S",
                   "A round this long was progress; 3 restarts in a row without progress end the job",
                   into(restarts.min_uptime, duration_of)}
             .by_default(whole_seconds(restarts.min_uptime)),
         OptionRow{"--progress-file", "PATH",
                   "Its change during a round was progress\nIn place of --min-uptime.", set_progress_file},
         OptionRow{
             "--same-failure", "N",
             "The same failure so many times in a row ends the job, restarts left or not; 0: never\n"
             "The same: exit code, message and last lines, whatever rank, node and numbers they name. A "
             "change of --progress-file begins the count anew.",
             into(restarts.same_failure, parse_same_failure)}
             .by_default(std::to_string(restarts.same_failure)),
         OptionRow{"--exclude-after", "N",
                   "A node whose workers fail first in so many rounds is left out of the next one, where a "
                   "waiting node or MIN of --nnodes allows it; 0: never\nThe node that hosts the rendezvous "
                   "stays. A machine that is left out gets no place again; for one more round --same-failure "
                   "and --min-uptime do not end the job.",
                   into(line.elasticity.exclude_after, number(0, kMaxRestarts))}
             .by_default(std::to_string(line.elasticity.exclude_after)),
         OptionRow{
             "--on-failure", "PROGRAM",
             "Ask this program about each failure: it gets the failure as JSON on stdin and says "
             "restart, stop or exclude NODE on stdout\nOn the node that hosts the rendezvous, within 10 "
             "s. Its restart is stronger than the options above, but for --max-restarts; where it does "
             "not answer, these decide.",
             into(line.on_failure)}}};
    for (OptionRow& row : group.rows) row.scope = Scope::node_0;
    return group;
}

std::string log_folder_text(const OutputPlan& plan) {
    if (!plan.files) return "none";
    return plan.log_dir.empty() ? "a new one among the temporary files" : plan.log_dir;
}

OptionGroup file_rows(CommandLine& line) {
    OutputPlan& plan = line.output;
    return {
        "Output",
        {OptionRow{"--redirects,-r", "V|R:V,…",
                   "Streams to files only: 0 none, 1 stdout, 2 stderr, 3 both, for all or by local rank\nAs "
                   "0:3,1:1, for instance.",
                   of_number(output_part(plan, &OutputOptions::redirects, &OutputPlan::redirects))}
             .of_torchrun("PET_REDIRECTS"),
         OptionRow{"--tee,-t", "V|R:V,…", "Streams to files and to the console, with a header",
                   of_number(output_part(plan, &OutputOptions::tee, &OutputPlan::tee))}
             .of_torchrun("PET_TEE")
             .common(),
         OptionRow{
             "--log-dir", "DIR",
             "Where files go; /dev/null: no files\nHere, in --log-file, --events and --result-file %t is "
             "when the job was started, %j its --rdzv-id, %h the host, %r the number of the node, %% a "
             "%.",
             output_part(plan, &OutputOptions::log_dir, &OutputPlan::log_dir, &OutputPlan::files)}
             .by_default("a new folder in TMPDIR")
             .of_torchrun("PET_LOG_DIR")
             .common()
             .shows("log folder", [&plan] { return log_folder_text(plan); }, {"--log-dir"}),
         OptionRow{"--log-max", "SIZE", "Each file keeps its head and its tail, like 100M",
                   output_part(plan, &OutputOptions::log_max, &OutputPlan::log_max)},
         OptionRow{"--duplicate-stdout-filters", "TEXTS",
                   "Lines with one of these texts are also copied to filtered_stdout.log",
                   output_part(plan, &OutputOptions::duplicate_stdout_filters, &OutputPlan::out_filters)}
             .of_torchrun("PET_DUPLICATE_STDOUT_FILTERS"),
         OptionRow{"--duplicate-stderr-filters", "TEXTS",
                   "Lines of stderr with one of these texts are also copied to filtered_stderr.log",
                   output_part(plan, &OutputOptions::duplicate_stderr_filters, &OutputPlan::err_filters)}
             .of_torchrun("PET_DUPLICATE_STDERR_FILTERS"),
         OptionRow{"--log-file", "FILE",
                   "Append the launcher's own lines to this file, all that --verbose shows\nWith time, node, "
                   "level and thread, whatever the console shows; tried before anything starts. Nodes may "
                   "share one.",
                   into(line.log_file, path_text)},
         OptionRow{"--events", "FILE",
                   "Append what happens to this file, as lines of JSON: torchrun's events and ddprun's own\n"
                   "Phases of the start, rounds, restarts, resizes, signals, each worker's end with its CPU "
                   "time and memory; tried before anything starts. Each node writes its own events.",
                   into(line.events, path_text)},
         OptionRow{
             "--result-file", "PATH",
             "Write how the job ended to this file, as JSON\nOutcome, exit code, first failure, every "
             "rank's end, restarts, times; tried before anything starts, written when the job has ended "
             "(until then there is no file, or the old one); /dev/stdout and a FIFO will do.",
             into(line.result_file, path_text)}}};
}

OptionGroup console_rows(CommandLine& line) {
    OutputPlan& plan = line.output;
    return {
        "Console",
        {OptionRow{"--prefix", "[=TEMPLATE]",
                   "Put the host and rank in front of each line, or TEMPLATE with {host} {rank} {local_rank} "
                   "{role} {time} {stream}\nBy variable or file, 1 or true stands for no template.",
                   output_part(plan, &OutputOptions::prefix, &OutputPlan::prefix)},
         OptionRow{
             "--show", "RANKS",
             "Only these global ranks on the console, like 0,8-15\nRanks that the job does not have are "
             "refused, here and in --local-ranks-filter, --wrap, --tty, -r and -t.",
             output_part(plan, &OutputOptions::show, &OutputPlan::ranks_shown)},
         OptionRow{
             "--local-ranks-filter", "RANKS", "Only these local ranks on the console",
             of_number(output_part(plan, &OutputOptions::local_ranks_filter, &OutputPlan::local_ranks_shown))}
             .of_torchrun("PET_LOCAL_RANKS_FILTER"),
         OptionRow{"--log-line-prefix-template", "TEMPLATE",
                   "The header of --tee, with ${role_name} ${rank} ${local_rank} ${hostname}",
                   output_part(plan, &OutputOptions::log_line_prefix_template, &OutputPlan::tee_header)}
             .of_torchrun("PET_LOG_LINE_PREFIX_TEMPLATE, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
         OptionRow{"--quiet,-q", "", "The launcher says only errors and the report", into(line.quiet)}.tagged(
             kFindsNodes),
         OptionRow{"--verbose,-v", "",
                   "The launcher says what it does: endpoint, ranks, pids, ends, why it stops workers\nAlso "
                   "the interpreter and the log folder.",
                   into(line.verbose)}
             .tagged(kFindsNodes)}};
}

OptionGroup debugging_rows(CommandLine& line) {
    return {
        "Debugging",
        {OptionRow{"--tty", "RANK",
                   "This rank has the launcher's stdin, stdout and stderr; the others have /dev/null for "
                   "stdin\nFor a debugger, with --wrap in front.",
                   into(line.tty_rank, number(0, kMaxRank))}
             .contradicts_hosts("no host has the terminal"),
         OptionRow{"--wrap", "RANKS:COMMAND",
                   "Put COMMAND (gdb, nsys, …) in front of these ranks; %r %l %h\nThe rank, the local "
                   "rank, the host; may be repeated.",
                   [&line](Text text) { line.wraps.push_back(value_or_throw<UsageError>(parse_wrap(text))); }}
             .any_number_of_times()}};
}

OptionGroup torchrun_rows(CommandLine& line) {
    const auto threads = one_of<OmpThreads>(
        {{"cpus", OmpThreads::cpus}, {"one", OmpThreads::one}, {"none", OmpThreads::none}});
    const auto set_handler = [&line](Text text) {
        no_effect({"null", "console", "dynamic_rendezvous"})(text);
        if (text == "console")
            line.remarks.emplace_back(
                "--event-log-handler console: passed over, no events are printed; --events FILE has them");
    };
    OptionRow use_env{"--use-env", "", "With --legacy-launch: do not pass it; LOCAL_RANK is set in any case",
                      into(line.use_env)};
    OptionRow logs_specs{"--logs-specs", "NAME",
                         "default; another one would be a Python class, which ddprun cannot load",
                         no_effect({"default"})};
    use_env.is_torchruns = logs_specs.is_torchruns = true;
    return {
        "As torchrun",
        {OptionRow{"--like-torchrun", "",
                   "Do as torchrun where a script can see the difference\nThe default where ddprun is called "
                   "by the name torchrun. Stands for --exit-codes=one --python --omp-threads=one "
                   "--gpu-bind=none --signal-scope=group --stdin=all --allow-different --min-uptime=0 "
                   "--same-failure=0, for which those may still be given, for torchrun's rule for $ in "
                   "arguments, and for no --node-rank with c10d and etcd.",
                   into(line.like_torchrun)},
         OptionRow{"--exit-codes", "HOW",
                   "worker: that of the worker that failed first, and those of the table in the manual; one: "
                   "1 for every failure but a wrong command line",
                   into(line.exits_with_one, one_of<bool>({{"worker", false}, {"one", true}}))}
             .by_default("worker"),
         OptionRow{
             "--omp-threads", "HOW",
             "OMP_NUM_THREADS, unless set. cpus: usable CPUs by workers; one: 1 where a node has several "
             "workers; none: untouched",
             into(line.omp_threads, threads)}
             .by_default("cpus"),
         OptionRow{
             "--legacy-launch", "[=NAME]",
             "Pass the local rank to the program as its first argument, as torch.distributed.launch "
             "does\nAs --local-rank=N; by NAME local_rank as --local_rank=N. The default where ddprun is "
             "called by the name ddprun-launch.",
             into(line.legacy_launch, parse_legacy_launch)},
         std::move(use_env),
         OptionRow{"--start-method", "HOW",
                   "spawn, fork or forkserver. No effect: every worker is a program of its own",
                   no_effect({"spawn", "fork", "forkserver"})}
             .of_torchrun("PET_START_METHOD"),
         OptionRow{"--monitor-interval", "S", "No effect: nothing is polled", decimal_text}.of_torchrun(
             "PET_MONITOR_INTERVAL"),
         OptionRow{"--exit-barrier-timeout", "S", "No effect: agents stay until the job is over",
                   decimal_text}
             .of_torchrun("PET_EXIT_BARRIER_TIMEOUT"),
         OptionRow{"--event-log-handler", "NAME",
                   "null, console or dynamic_rendezvous. No effect: --events FILE has torchrun's events",
                   set_handler}
             .of_torchrun("PET_EVENT_LOG_HANDLER"),
         std::move(logs_specs)}};
}

}  // namespace

std::vector<OptionGroup> worker_options(CommandLine& line) {
    return {program_rows(line),   variable_rows(line), device_rows(line), supervision_rows(line),
            time_rows(line),      restart_rows(line),  file_rows(line),   console_rows(line),
            debugging_rows(line), torchrun_rows(line)};
}

}  // namespace ddprun::inline app
