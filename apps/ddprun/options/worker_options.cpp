// The options that say what the workers run, where and with what, how they are supervised, and where their
// output goes.
#include <fmt/core.h>

#include <tuple>

#include "apps/ddprun/options/job_options.hpp"
#include "apps/ddprun/options/option_values.hpp"
#include "launcher/features/event_log.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/features/hang_watch.hpp"
#include "launcher/features/local_cache.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/time_limit.hpp"

namespace ddprun {
inline namespace app {
namespace {

using Text = const std::string&;

// Sets an option that is accepted only because torchrun has it: a wrong value is refused here, too.
std::function<void(Text)> no_effect(const std::vector<std::string>& names) {
    std::vector<std::pair<std::string, bool>> values;
    for (const std::string& name : names) values.emplace_back(name, true);
    return one_of<bool>(std::move(values));
}

// Sets a member of a feature's options, which are others each time that the line is read.
template <class Options, class Value, class Parse>
std::function<void(Text)> into_feature(Said& line, Value Options::*member, Parse grammar) {
    return [&line, member, grammar](Text text) { line.features.of<Options>().*member = grammar(text); };
}

// Sets one part of the output's plan, whose grammar the launcher has.
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

std::vector<OptionRow> program_rows(Said& line) {
    const auto add_program = [&line](Text text) {
        line.rank_programs.push_back(value_or_throw<UsageError>(
            parse_rank_command("--program", text, "'0:./server --port 7' or 'local=1:./helper'")));
    };
    return {{"--module,-m", "", "The program is a Python module", into(line.module), kTorchruns},
            {"--no-python", "", "Execute the program itself, also if its name ends in .py",
             into(line.no_python), kTorchruns},
            {"--python", "",
             "Run the program by python3 -u, whatever its name\n"
             "So run .py, folders with __main__.py, zip applications, "
             "and what cannot be executed: by $PYTHON_EXEC, else the Python beside "
             "ddprun, else python3.",
             into(line.python)},
            {"--run-path", "",
             "Python runs the program as a path, by runpy.run_path\n"
             "An exception is written to $TORCHELASTIC_ERROR_FILE without "
             "the program's doing. Stronger than --module and --no-python.",
             into(line.run_path), kTorchruns},
            {"--stdin", "WHO",
             "Who reads ddprun's own stdin: a global rank, all, or none\n"
             "The others have /dev/null. By all the workers of a node share "
             "it, as torchrun's do: what one has read no other one gets.",
             into(line.standard_input, parse_standard_input), 0, "rank 0, unless it is a terminal",
             "no host has this standard input"},
            {"--program", "RANKS:COMMAND",
             "These ranks (0,8-15; local=0; *) run COMMAND in place of PROGRAM\n"
             "May be repeated; the first that names a rank counts. "
             "With '*:…' among them PROGRAM may be left out.",
             add_program, kRepeated | kAllNodes | kPath | kTemplate},
            {"--local-cache", "",
             "Caches of Triton, Inductor, CUDA and PyTorch's "
             "extensions in a folder of this machine, for this job\n"
             "In TMPDIR, removed at the end; where a variable like TRITON_CACHE_DIR is set, it stays.",
             into_feature(line, &LocalCacheOptions::asked, yes_or_no)},
            {"--role", "NAME", "Label of these workers, ROLE_NAME", into(line.role), kTorchruns, line.role}};
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

std::vector<OptionRow> variable_rows(Said& line) {
    return {{"--env", "NAME=VALUE", "Set a variable for all workers\nMay be repeated.",
             [&line](Text text) { line.variables.push_back(parse_variable(text)); }, kRepeated},
            {"--env-rank", "RANKS:NAME=VALUE",
             "Set a variable for these ranks (0,8-15; local=0; *)\nMay be repeated; the last one counts.",
             [&line](Text text) { line.rank_variables.push_back(parse_rank_variable(text)); }, kRepeated},
            {"--clean-env", "",
             "Workers do not inherit ddprun's own variables\n"
             "But HOME, USER, LOGNAME, SHELL, PATH, TERM, LANG, LANGUAGE, LC_*, TZ, TMPDIR, "
             "HOSTNAME and the masks of GPUs (CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, "
             "HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, ZE_AFFINITY_MASK, "
             "GPU_DEVICE_ORDINAL); with --hosts those of the host they run on.",
             into(line.clean_environment)}};
}

std::vector<OptionRow> device_rows(Said& line) {
    const auto numa = parsed_by(parse_numa_binding, "must be node, socket, exclusive or core-complex");

    return {
        {"--gpu-bind", "HOW",
         "single: a worker sees its own GPU; all: it sees all and uses LOCAL_RANK; none: "
         "untouched; auto: single for a binary, all for whatever may run another program\n"
         "A binary that is no interpreter, shell or wrapper (bash, env, numactl, uv, …), by "
         "its name and that of the file. Python in any clothes counts GPUs by LOCAL_RANK.",
         into(line.gpu_bind, parsed_by(parse_gpu_bind, "must be auto, single, all or none")), 0, "auto"},
        {"--share-gpus", "",
         "Allow more workers than GPUs\nWithout it that is refused before anything starts.",
         into(line.share_gpus)},
        {"--virtual-local-rank", "",
         "Every worker has LOCAL_RANK=0, and sees its own GPU only\n"
         "By CUDA_VISIBLE_DEVICES, or what AMD's and Intel's GPUs "
         "have for it; without any GPU that is the local rank.",
         into(line.virtual_local_rank), kTorchruns},
        {"--bind", "HOW",
         "Which CPUs a worker may run on, of those that ddprun may use. cores: "
         "cores of its own; numa: those of one NUMA node; none: all\n"
         "Near its GPU where it has one, else all workers get "
         "equal parts. Its memory is taken from there, too.",
         into(line.cpu_bind, parsed_by(parse_bind, "must be cores, numa or none")), 0, "none"},
        {"--numa-binding", "HOW",
         "Bind to CPUs as torchrun says it. node: the CPUs of its GPU's NUMA node; socket: of that node's "
         "socket; exclusive: cores of its own there; core-complex: those that share one last-level cache\n"
         "exclusive refuses too few cores.",
         into(line.numa_binding, numa), kLikeTorchruns},
        {"--rank-order", "BY",
         "In which order the nodes have their ranks: node, by their numbers; topology, by the "
         "switches that Slurm names in SLURM_TOPOLOGY_ADDR; or a file of host names in that order\n"
         "GROUP_RANK goes by it, too; node 0 hosts the rendezvous all the same. Nodes of which "
         "nothing is known come last. For a file that is called node or topology write ./node.",
         into(line.rank_order_by), kPath, line.rank_order_by},
        {"--dry-run", "",
         "Print where each worker of this node would run (CPUs, NUMA node, GPU, NIC) and what, and exit\n"
         "Nothing is connected to and nothing started.",
         into(line.dry_run), kForStarter},
        {"--check", "",
         "Look at this node before anything starts, as ddprun doctor "
         "does, and take no part in a job where there is a problem\n"
         "One line for each problem, and exit code 71. Of several nodes the others begin "
         "without this one where MIN of --nnodes allows that, else the job ends. Only what "
         "takes little time: neither names nor Python. Not with --dry-run or --adapt.",
         into_feature(line, &NodeCheckOptions::asked, yes_or_no)},
        {"--explain", "",
         "Print the whole plan with the source of each value, and exit\n"
         "What the cluster tells and who says otherwise, options and who set them, addresses "
         "and ports, GPUs and CPUs, each worker's command and what its environment has over "
         "the inherited one. Nothing is connected to and nothing started.",
         into(line.explain), kForStarter},
        {"--json", "", "What --explain and --dry-run print, as JSON", into(line.json), kForStarter}};
}

std::vector<OptionRow> supervision_rows(Said& line) {
    const auto set_signals = [&line](Text text) {
        line.terminating_signals = parse_signals(text, line.unknown_signals);
        line.signals_text = text;
    };
    return {
        {"--shutdown-timeout,--grace", "S",
         "Seconds between the signal to stop and SIGKILL\n"
         "At half of them all processes of a worker get SIGTERM.",
         seconds_into(line.grace_period), kTorchruns, whole_seconds(line.grace_period), "",
         "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
        {"--lost-grace", "S",
         "Seconds in which a node that has lost its coordinator ends its workers, SIGKILL included\n"
         "At most --grace. The others wait for that before they go on without it.",
         seconds_into(line.lost_grace), 0, whole_seconds(line.lost_grace)},
        {"--signals-to-handle", "NAMES", "Signals that are passed on to all workers and end the job",
         set_signals, kTorchruns, line.signals_text},
        {"--forward", "A,B=C",
         "Signals that are passed on to all workers without ending the job; B arrives as C\n"
         "To any agent; every worker of the job gets it once.",
         into(line.forwarded_signals, parse_forward)},
        {"--requeue-on", "NAMES",
         "Signals passed on as by --forward; if all workers end with 0 afterwards, the exit code is 75",
         into(line.requeue_signals, parse_requeue_on)},
        {"--signal-scope", "WHO",
         "Whom a signal reaches at first: leader: the worker's own process; group: its process "
         "group; auto: the worker, and what is below processes that do not handle the signal",
         into(line.signal_scope, parsed_by(parse_signal_scope, "must be auto, leader or group")), 0, "auto"},
        {"--detach", "",
         "Return when the workers run, and print the job's id; see ddpctl --help\nNot with --tty.",
         into(line.detach), 0, "", "the terminal is where all hosts' output comes to"}};
}

std::vector<OptionRow> time_rows(Said& line) {
    const auto set_hang_timeout = [&line](Text text) {
        auto& watch = line.features.of<HangWatchOptions>();
        parse_hang_timeout(text, watch);
        line.restarts.after_hang = watch.action == HangAction::restart;
    };
    return {
        {"--time-limit", "DURATION",
         "End the job after this time, like 90s or 2h, as SIGTERM to ddprun would\n"
         "From node 0's start, joining included; on other nodes it has no effect.",
         [&line](Text text) { parse_time_limit(text, line.features.of<TimeLimitOptions>()); }, kNode0},
        {"--warn-before", "S[:SIGNAL]",
         "Send all workers a signal this long before the limit (USR1)\n"
         "The limit is --time-limit or $SLURM_JOB_END_TIME, whichever is earlier; if the "
         "signal is one of --requeue-on, it counts as received. Less than --time-limit.",
         [&line](Text text) { parse_warn_before(text, line.features.of<TimeLimitOptions>()); }, kNode0},
        {"--exit-wait", "S[:kill]",
         "When a rank has ended with 0 and others still run after this time, one line on node 0 names them\n"
         "With :kill they are then ended, as after a failure; the exit code is 124.",
         into(line.exit_wait, parse_exit_wait), kNode0},
        {"--hang-timeout", "S[:report|stop|restart]",
         "Say which ranks hold a job that has shown no progress for this time, and where\n"
         "Progress is output, traffic between ranks, work of disks or children, --progress-file. With :stop "
         "the job then ends, with exit code 124; with :restart as long as --max-restarts has one left it "
         "begins anew. Give it to all nodes, with a secret; node 0 decides.",
         set_hang_timeout},
        {"--hang-start-timeout", "S",
         "The same until the first progress of a round (3 times --hang-timeout, at least 600)",
         into_feature(line, &HangWatchOptions::start, parse_hang_start)}};
}

std::vector<OptionRow> restart_rows(Said& line) {
    RestartOptions& restarts = line.restarts;
    const auto codes = parsed_by(parse_code_ranges, "must be exit codes from 1 to 255, like 1,64-78");
    const auto set_backoff = [&restarts](Text text) {
        std::tie(restarts.backoff_min, restarts.backoff_max) = parse_backoff(text);
    };
    const auto set_progress_file = [&line](Text text) {
        line.restarts.has_progress_file = true;
        line.progress_file = text;
    };
    return {
        {"--max-restarts", "N", "Restarts of the whole job after failures\nWhichever node fails.",
         into(restarts.max_restarts, number(0, kMaxRestarts)), kTorchruns | kNode0,
         std::to_string(restarts.max_restarts)},
        {"--restart-on", "CODES", "Restart only after these exit codes, like 1,64-78\n128+n for signal n.",
         into(restarts.restart_on, codes), kNode0},
        {"--no-restart-on", "CODES", "Never restart after these exit codes",
         into(restarts.no_restart_on, codes), kNode0},
        {"--backoff", "MIN..MAX", "Pause before a restart, doubled each time, like 1s..5m\nWith jitter.",
         set_backoff, kNode0, whole_seconds(restarts.backoff_min)},
        {"--min-uptime", "S",
         "A round this long was progress; 3 restarts in a row without progress end the job",
         into(restarts.min_uptime, duration_of), kNode0, whole_seconds(restarts.min_uptime)},
        {"--progress-file", "PATH", "Its change during a round was progress\nIn place of --min-uptime.",
         set_progress_file, kNode0 | kPath},
        {"--same-failure", "N",
         "The same failure so many times in a row ends the job, restarts left or not; 0: never\n"
         "The same: exit code, message and last lines, whatever rank, node and "
         "numbers they name. A change of --progress-file begins the count anew.",
         into(restarts.same_failure, parse_same_failure), kNode0, std::to_string(restarts.same_failure)},
        {"--exclude-after", "N",
         "A node whose workers fail first in so many rounds is left out of the next "
         "one, where a waiting node or MIN of --nnodes allows it; 0: never\n"
         "The node that hosts the rendezvous stays. A machine that is left out gets no place "
         "again; for one more round --same-failure and --min-uptime do not end the job.",
         into(line.elasticity.exclude_after, number(0, kMaxRestarts)), kNode0,
         std::to_string(line.elasticity.exclude_after)},
        {"--on-failure", "PROGRAM",
         "Ask this program about each failure: it gets the failure as JSON "
         "on stdin and says restart, stop or exclude NODE on stdout\n"
         "On the node that hosts the rendezvous, within 10 s. Its restart is stronger than the "
         "options above, but for --max-restarts; where it does not answer, these decide.",
         into_feature(line, &FailureJudgeOptions::program, any_text), kNode0 | kPath}};
}

std::vector<OptionRow> file_rows(Said& line) {
    OutputPlan& plan = line.output;
    return {
        {"--redirects,-r", "V|R:V,…",
         "Streams to files only: 0 none, 1 stdout, 2 stderr, 3 both, for all or by local rank\n"
         "As 0:3,1:1, for instance.",
         of_number(output_part(plan, &OutputOptions::redirects, &OutputPlan::redirects)), kTorchruns},
        {"--tee,-t", "V|R:V,…", "Streams to files and to the console, with a header",
         of_number(output_part(plan, &OutputOptions::tee, &OutputPlan::tee)), kTorchruns},
        {"--log-dir", "DIR",
         "Where files go; /dev/null: no files\n"
         "Here, in --log-file, --events and --result-file %t is when the job was "
         "started, %j its --rdzv-id, %h the host, %r the number of the node, %% a %.",
         output_part(plan, &OutputOptions::log_dir, &OutputPlan::log_dir, &OutputPlan::files),
         kTorchruns | kPath, "a new folder in TMPDIR"},
        {"--log-max", "SIZE", "Each file keeps its head and its tail, like 100M",
         output_part(plan, &OutputOptions::log_max, &OutputPlan::log_max)},
        {"--duplicate-stdout-filters", "TEXTS",
         "Lines with one of these texts are also copied to filtered_stdout.log",
         output_part(plan, &OutputOptions::duplicate_stdout_filters, &OutputPlan::out_filters), kTorchruns},
        {"--duplicate-stderr-filters", "TEXTS",
         "Lines of stderr with one of these texts are also copied to filtered_stderr.log",
         output_part(plan, &OutputOptions::duplicate_stderr_filters, &OutputPlan::err_filters), kTorchruns},
        {"--log-file", "FILE",
         "Append the launcher's own lines to this file, all that --verbose shows\n"
         "With time, node, level and thread, whatever the console "
         "shows; tried before anything starts. Nodes may share one.",
         into(line.log_file, path_text), kPath},
        {"--events", "FILE",
         "Append what happens to this file, as lines of JSON: torchrun's events and ddprun's own\n"
         "Phases of the start, rounds, restarts, resizes, signals, each worker's end with its "
         "CPU time and memory; tried before anything starts. Each node writes its own events.",
         into_feature(line, &EventLogOptions::path, path_text), kPath},
        {"--result-file", "PATH",
         "Write how the job ended to this file, as JSON\n"
         "Outcome, exit code, first failure, every rank's end, restarts, times; "
         "tried before anything starts, written when the job has ended (until then "
         "there is no file, or the old one); /dev/stdout and a FIFO will do.",
         into(line.result_file, path_text), kPath}};
}

std::vector<OptionRow> console_rows(Said& line) {
    OutputPlan& plan = line.output;
    return {{"--prefix", "[=TEMPLATE]",
             "Put the host and rank in front of each line, or TEMPLATE "
             "with {host} {rank} {local_rank} {role} {time} {stream}\n"
             "By variable or file, 1 or true stands for no template.",
             output_part(plan, &OutputOptions::prefix, &OutputPlan::prefix)},
            {"--show", "RANKS",
             "Only these global ranks on the console, like 0,8-15\n"
             "Ranks that the job does not have are refused, here and "
             "in --local-ranks-filter, --wrap, --tty, -r and -t.",
             output_part(plan, &OutputOptions::show, &OutputPlan::ranks_shown)},
            {"--local-ranks-filter", "RANKS", "Only these local ranks on the console",
             of_number(output_part(plan, &OutputOptions::local_ranks_filter, &OutputPlan::local_ranks_shown)),
             kTorchruns},
            {"--log-line-prefix-template", "TEMPLATE",
             "The header of --tee, with ${role_name} ${rank} ${local_rank} ${hostname}",
             output_part(plan, &OutputOptions::log_line_prefix_template, &OutputPlan::tee_header),
             kTorchruns | kTemplate, "", "", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
            {"--quiet,-q", "", "The launcher says only errors and the report", into(line.quiet), kFindsNodes},
            {"--verbose,-v", "",
             "The launcher says what it does: endpoint, ranks, pids, ends, why it stops workers\n"
             "Also the interpreter and the log folder.",
             into(line.verbose), kFindsNodes}};
}

std::vector<OptionRow> debugging_rows(Said& line) {
    return {{"--tty", "RANK",
             "This rank has the launcher's stdin, stdout and stderr; the others have /dev/null for stdin\n"
             "For a debugger, with --wrap in front.",
             into(line.tty_rank, number(0, kMaxRank)), 0, "", "no host has the terminal"},
            {"--wrap", "RANKS:COMMAND",
             "Put COMMAND (gdb, nsys, …) in front of these ranks; %r %l %h\n"
             "The rank, the local rank, the host; may be repeated.",
             [&line](Text text) { line.wraps.push_back(value_or_throw<UsageError>(parse_wrap(text))); },
             kRepeated | kPath | kTemplate}};
}

std::vector<OptionRow> torchrun_rows(Said& line) {
    const auto threads = one_of<OmpThreads>(
        {{"cpus", OmpThreads::cpus}, {"one", OmpThreads::one}, {"none", OmpThreads::none}});
    const auto set_handler = [&line](Text text) {
        no_effect({"null", "console", "dynamic_rendezvous"})(text);
        if (text == "console")
            line.remarks.emplace_back(
                "--event-log-handler console: passed over, no events are printed; --events FILE has them");
    };

    return {{"--like-torchrun", "",
             "Do as torchrun where a script can see the difference\n"
             "The default where ddprun is called by the name torchrun. Stands for --exit-codes=one "
             "--python --omp-threads=one --gpu-bind=none --signal-scope=group --stdin=all "
             "--allow-different --min-uptime=0 --same-failure=0, for which those may still be given, "
             "for torchrun's rule for $ in arguments, and for no --node-rank with c10d and etcd.",
             into(line.like_torchrun)},
            {"--exit-codes", "HOW",
             "worker: that of the worker that failed first, and those of the table "
             "in the manual; one: 1 for every failure but a wrong command line",
             into(line.exits_with_one, one_of<bool>({{"worker", false}, {"one", true}})), 0, "worker"},
            {"--omp-threads", "HOW",
             "OMP_NUM_THREADS, unless set. cpus: usable CPUs by workers; "
             "one: 1 where a node has several workers; none: untouched",
             into(line.omp_threads, threads), 0, "cpus"},
            {"--legacy-launch", "[=NAME]",
             "Pass the local rank to the program as its first argument, as torch.distributed.launch does\n"
             "As --local-rank=N; by NAME local_rank as --local_rank=N. The "
             "default where ddprun is called by the name ddprun-launch.",
             into(line.legacy_launch, parse_legacy_launch)},
            {"--use-env", "", "With --legacy-launch: do not pass it; LOCAL_RANK is set in any case",
             into(line.use_env), kLikeTorchruns},
            {"--start-method", "HOW",
             "spawn, fork or forkserver. No effect: every worker is a program of its own",
             no_effect({"spawn", "fork", "forkserver"}), kTorchruns},
            {"--monitor-interval", "S", "No effect: nothing is polled", decimal_text, kTorchruns},
            {"--exit-barrier-timeout", "S", "No effect: agents stay until the job is over", decimal_text,
             kTorchruns},
            {"--event-log-handler", "NAME",
             "null, console or dynamic_rendezvous. No effect: --events FILE has torchrun's events",
             set_handler, kTorchruns},
            {"--logs-specs", "NAME", "default; another one would be a Python class, which ddprun cannot load",
             no_effect({"default"}), kLikeTorchruns}};
}

}  // namespace

std::vector<OptionGroup> worker_options(Said& line) {
    OptionGroup groups[] = {{"Program", program_rows(line)},     {"Workers' variables", variable_rows(line)},
                            {"Devices", device_rows(line)},      {"Supervision", supervision_rows(line)},
                            {"Times", time_rows(line)},          {"Restarts", restart_rows(line)},
                            {"Output", file_rows(line)},         {"Console", console_rows(line)},
                            {"Debugging", debugging_rows(line)}, {"As torchrun", torchrun_rows(line)}};
    return moved_list(groups);
}

}  // namespace app
}  // namespace ddprun
