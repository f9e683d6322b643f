#include "apps/ddprun/options/command_line.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "apps/cli/print.hpp"
#include "launcher/features/event_log.hpp"
#include "launcher/features/node_check.hpp"
#include "launcher/features/time_limit.hpp"
#include "launcher/path_template.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::string_view kMasterAddr = "--master-addr";

constexpr const char* kUsage = "[OPTIONS] PROGRAM [ARGUMENTS…]";
constexpr const char* kWhatItDoes =
    "Starts a distributed program on this node as part of a job, and supervises it.";

constexpr std::string_view kExamples =
    "Examples\n"
    "  ddprun --nproc-per-node 4 train.py         four workers on this node\n"
    "  ddprun --nproc-per-node gpu train.py       a worker for each of its GPUs\n"
    "  ddprun --hosts gpu1:8,gpu2:8 train.py      eight on each of two, by ssh\n"
    "  srun --ntasks-per-node 1 ddprun train.py   on all nodes of a Slurm job\n"
    "  ddprun --nnodes 2 --node-rank 0 --master-addr gpu1 train.py\n"
    "                                             the other one: --node-rank 1\n";

// All that -h shows besides, for the ten options that people use; the whole page is on one screen.
constexpr std::string_view kShortOptions =
    "\nOptions\n"
    "  --nproc-per-node P    Workers on this node: a number, gpu, cpu or auto\n"
    "  --nnodes N|MIN:MAX    Number of nodes, each of which runs this command\n"
    "  --node-rank R         This node's number, 0 to N-1\n"
    "  --master-addr HOST    Node 0, as the other nodes reach it\n"
    "  --hosts HOST[:N],…    Start the job on these hosts, with N workers each\n"
    "  -m, --module          The program is a Python module\n"
    "  --env NAME=VALUE      Set a variable for all workers\n"
    "  --max-restarts N      Restarts of the whole job after failures\n"
    "  -t, --tee 3           Output to files and, with a header, to the console\n"
    "  --log-dir DIR         Where files go\n"
    "\nddprun --help shows all options, --help NAME one of them or a group.\n"
    "ddprun doctor looks whether this node is fit; ddpctl shows and ends jobs.\n";

// This stands below the options.
constexpr const char* kNotes =
    "Every option can also be set by a variable, DDPRUN_<NAME> (DDPRUN_NODE_RANK=1; a\n"
    "flag by 1), by that of torchrun where one is named, or in the file of --config\n"
    "(node-rank = 1). The command line is the strongest, then DDPRUN_<NAME>,\n"
    "torchrun's variable, the file; also of two options that exclude each other.\n"
    "Workers do not inherit DDPRUN_<NAME>.\n"
    "ddprun doctor looks at this node, or at several, in place of starting a job: see\n"
    "ddprun doctor --help.";

[[noreturn]] void refuse(const CommandLine& line, const std::string& flag, const std::string& why) {
    throw UsageError(as_said(line, fmt::format("{}: {}", flag, why)));
}

// The flag, and the value if it has one, is refused for the sake of the other option.
[[noreturn]] void contradict(const CommandLine& line, const std::string& said, const std::string& other,
                             const std::string& why) {
    refuse_together(line, said.substr(0, said.find(' ')), other, fmt::format("{}: {}", said, why));
}

// "N", or "MIN:MAX".
std::string nnodes_said(const CommandLine& line) {
    const std::string most = std::to_string(line.nnodes);
    return line.elasticity.is_elastic() ? fmt::format("{}:{}", *line.elasticity.min_nodes, most) : most;
}

void set_tls(CommandLine& line) {
    const TlsFiles& files = line.rdzv_conf.tls_files;
    if (line.rdzv_conf.is_https) {
        if (files.key.is_given() && !files.cert.is_given())
            refuse(line, fmt::format("{} {}", files.key.option, files.key.path),
                   "needs cert=FILE, the certificate that it is the key of");
        line.etcd->tls = files;
        return;
    }
    for (const NamedFile* file : {&files.ca, &files.cert, &files.key}) {
        if (!file->is_given()) continue;
        line.rdzv_conf.complaints.push_back(
            fmt::format("{} {}: passed over, etcd is asked over http; protocol=https asks it over TLS",
                        file->option, file->path));
    }
}

// One node needs no etcd, so it asks for none.
void set_etcd(CommandLine& line) {
    if (!line.rdzv_endpoint.is_said())
        refuse(line, "--rdzv-backend etcd", "needs --rdzv-endpoint HOST:PORT, where etcd is");
    if (line.rdzv_endpoint.of_etcd.empty())
        refuse(line, "--rdzv-endpoint " + line.rdzv_endpoint.text, "must be HOST:PORT, where etcd is");
    if (line.nnodes == 1) return;
    line.etcd = EtcdOptions{.endpoints = line.rdzv_endpoint.of_etcd};
    if (line.rdzv_conf.etcd_prefix) line.etcd->prefix = *line.rdzv_conf.etcd_prefix;
    set_tls(line);
    if (line.master_addr)
        line.rdzv_conf.complaints.push_back(
            fmt::format("--master-addr {}: passed over; the agent that etcd elects hosts, at the address "
                        "that reaches etcd",
                        *line.master_addr));
    line.master_addr.reset();
}

// A job that may begin with one node begins with the one that is here.
void become_one_node(CommandLine& line) {
    if (line.elasticity.min_nodes != 1) return;
    line.nnodes = 1;
    line.elasticity.min_nodes.reset();
    line.elasticity.spares = 0;
}

// A job of one node needs no other one, whatever else was said of how nodes find each other.
void set_standalone(CommandLine& line) {
    become_one_node(line);
    if (line.nnodes != 1)
        contradict(line, "--standalone", "--nnodes", "one node only, but --nnodes is " + nnodes_said(line));
    line.node_rank = 0;
    line.rdzv_backend = RdzvBackend::fixed;
    line.rdzv_endpoint = {};
    line.master_addr.reset();
    line.master_port.reset();
}

// Sets what --like-torchrun and --legacy-launch stand for, where nothing else was said.
void set_likeness(CommandLine& line, const std::string& called) {
    const auto said = [&line](const char* flag) { return line.origins.contains(flag); };
    if (called == kTorchrunName && !said("--like-torchrun")) line.like_torchrun = true;
    if (called == kLegacyLaunchName && !said("--legacy-launch")) line.legacy_launch = parse_legacy_launch("");
    if (line.use_env) line.legacy_launch.clear();
    if (!line.like_torchrun) return;
    if (!said("--exit-codes")) line.exits_with_one = true;
    if (!said("--python")) line.python = !line.no_python;
    if (!said("--omp-threads")) line.omp_threads = OmpThreads::one;
    // torchrun's binding is to the GPU at the local rank, which all binds to without hiding any.
    if (!said("--gpu-bind")) line.gpu_bind = line.numa_binding ? GpuBind::all : GpuBind::none;
    if (!said("--signal-scope")) line.signal_scope = SignalScope::group;
    if (!said("--stdin") && !line.tty_rank) line.standard_input = {.all = true};
    if (!said("--allow-different")) line.allow_different = true;
    if (!said("--min-uptime")) line.restarts.min_uptime = {};
    if (!said("--same-failure")) line.restarts.same_failure = 0;
    // The agent that hosts numbers the nodes.
    if (line.rdzv_backend != RdzvBackend::fixed && line.origins.erase("--node-rank") > 0) line.node_rank = 0;
}

void check_program(const CommandLine& line) {
    if (line.no_python && !line.run_path && line.module)
        contradict(line, "--no-python", "--module", "contradicts --module (-m)");
    if (line.no_python && !line.run_path && line.python && line.origins.contains("--python"))
        contradict(line, "--no-python", "--python", "contradicts --python");
    if (line.no_python && !line.run_path && !line.legacy_launch.empty())
        contradict(
            line, "--no-python", "--legacy-launch",
            "with --legacy-launch it needs --use-env, since " + line.legacy_launch + " is for a script");
    const bool sees_more = line.gpu_bind == GpuBind::all || line.gpu_bind == GpuBind::none;
    if (line.virtual_local_rank && line.origins.contains("--gpu-bind") && sees_more)
        contradict(line, "--virtual-local-rank", "--gpu-bind",
                   "every worker sees its own GPU only; --gpu-bind says otherwise");
    const StandardInput& input = line.standard_input;
    if (!line.origins.contains("--stdin") || !(input.all || input.rank)) return;
    const std::string value = input.all ? "all" : std::to_string(*input.rank);
    if (line.tty_rank) contradict(line, "--stdin " + value, "--tty", "contradicts --tty, whose rank has it");
    if (line.detach)
        contradict(line, "--stdin " + value, "--detach", "contradicts --detach, after which nothing is read");
}

bool asks_for_free_port(const CommandLine& line) { return line.rdzv_endpoint.port == std::uint16_t{0}; }

// The endpoint is the stronger, as torchrun has it.
void take_endpoint(CommandLine& line) {
    const std::string& host = line.rdzv_endpoint.host;
    auto port = line.rdzv_endpoint.port;
    // No other node could know which port that is.
    if (port == std::uint16_t{0} && line.nnodes > 1) port.reset();
    std::string passed_over;
    if (line.master_addr && *line.master_addr != host)
        passed_over = fmt::format("--master-addr {}", *line.master_addr);
    if (port && line.master_port && *line.master_port != *port)
        passed_over +=
            fmt::format("{}--master-port {}", passed_over.empty() ? "" : " and ", *line.master_port);
    if (!passed_over.empty())
        line.remarks.push_back(
            fmt::format("--rdzv-endpoint {}: stronger than {}", line.rdzv_endpoint.text, passed_over));
    line.master_addr = host;
    if (port) line.master_port = *port == 0 ? std::nullopt : port;
}

void set_master(CommandLine& line) {
    if (line.rdzv_backend == RdzvBackend::etcd) return set_etcd(line);
    if (!line.rdzv_endpoint.is_said()) return;
    if (line.rdzv_endpoint.host.empty())
        refuse(line, "--rdzv-endpoint " + line.rdzv_endpoint.text,
               "several endpoints are for --rdzv-backend etcd only");
    take_endpoint(line);
}

// If both are from one place, the time's own option is stronger than --rdzv-conf.
void set_times(CommandLine& line) {
    const auto set = [&line](const char* flag, std::chrono::milliseconds& time, const auto& conf) {
        if (!conf) return;
        const auto own = line.origins.find(flag);
        if (own == line.origins.end() || own->second.source < line.origins.at("--rdzv-conf").source)
            time = *conf;
    };
    set("--join-timeout", line.join_timeout, line.rdzv_conf.join_timeout);
    set("--heartbeat", line.heartbeat, line.rdzv_conf.heartbeat);
    set("--last-call", line.elasticity.last_call, line.rdzv_conf.last_call);
}

// All nodes are this machine where no address is said, as torchrun has it. Under c10d and etcd only an
// explicit number counts.
void set_nodes(CommandLine& line) {
    // As if nothing was said: nobody is reached there.
    if (is_wildcard(line.local_addr)) line.local_addr.clear();
    // Nobody else has to reach the node that is alone.
    if (line.nnodes == 1 && !line.master_addr && !line.local_addr.empty()) line.master_addr = line.local_addr;
    line.address_assumed = line.nnodes > 1 && !line.master_addr && !line.etcd;
    if (line.address_assumed) line.master_addr = "127.0.0.1";
    if (line.rdzv_backend == RdzvBackend::fixed) return;
    if (line.etcd) line.hosting = Hosting::no;  // until it is elected
    if (line.nnodes == 1) {
        line.hosting = Hosting::yes;
    } else if (!line.origins.contains("--node-rank")) {
        line.node_rank = kUnnumbered;
    }
}

void set_signals(CommandLine& line) {
    for (const auto& [received, sent] : line.forwarded_signals)
        std::erase(line.terminating_signals, received);
    for (const int signal : line.requeue_signals) {
        if (std::find(line.terminating_signals.begin(), line.terminating_signals.end(), signal) !=
            line.terminating_signals.end()) {
            const std::string name = signal_name(signal).value_or(std::to_string(signal));
            contradict(line, "--requeue-on " + name.substr(name.starts_with("SIG") ? 3 : 0),
                       "--signals-to-handle", "contradicts --signals-to-handle, by which it ends the job");
        }
        line.forwarded_signals.emplace(signal, signal);
    }
}

void check_spares(const CommandLine& line) {
    const std::string spares = fmt::format("--spares {}", line.elasticity.spares);
    // Without --nnodes they would need it all the more.
    const auto nodes = line.origins.find("--nnodes");
    const bool is_weaker =
        nodes != line.origins.end() && line.origins.at("--spares").source < nodes->second.source;
    if (!line.elasticity.is_elastic())
        contradict(line, spares, is_weaker ? "--nnodes" : "",
                   fmt::format("needs --nnodes MIN:MAX, which counts the spares, too; for {} that "
                               "work give --nnodes {}:{}",
                               line.nnodes, line.nnodes, line.nnodes + line.elasticity.spares));
    if (line.elasticity.seats(line.nnodes) < *line.elasticity.min_nodes)
        refuse(line, spares,
               fmt::format("leaves less than the {} nodes of --nnodes {} to work", *line.elasticity.min_nodes,
                           nnodes_said(line)));
}

void check_together(const CommandLine& line) {
    if (line.elasticity.spares > 0) check_spares(line);
    if (line.nproc_per_node == WorkerCount(0) && line.nnodes == 1)
        refuse(line, "--nproc-per-node 0",
               "nothing would run on this one node; 0 is for one of several that only hosts. Did a count of "
               "GPUs find "
               "none? auto takes CPUs then");
    if (line.nodes_said && !line.start.is_asked()) check_node_rank(line);
    if (line.detach && line.tty_rank)
        contradict(line, "--detach", "--tty", "goes on without a terminal, so --tty cannot be given with it");
    if (line.nnodes > 1 && line.master_port == std::uint16_t{0} && !line.etcd)
        refuse(line, "--master-port 0", "the nodes must agree on a port; 0 is for one node only");
    if (line.nnodes > 1 && !line.etcd && !line.master_port && asks_for_free_port(line))
        refuse(line, "--rdzv-endpoint " + line.rdzv_endpoint.text,
               "no other node could know which port is free here; 0 is for one node only");
    if (line.numa_binding && line.origins.contains("--bind"))
        contradict(line, "--bind", "--numa-binding", "contradicts --numa-binding; one of them is enough");
    for (const char* other : {"--dry-run", "--adapt"}) {
        if (line.features.of<NodeCheckOptions>().asked &&
            (other == std::string_view("--adapt") ? line.adapt : line.dry_run))
            contradict(line, "--check", other, fmt::format("contradicts {}", other));
    }
    if (line.quiet && line.verbose) contradict(line, "--quiet", "--verbose", "contradicts --verbose");
}

long seconds_of(std::chrono::milliseconds time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

// Refuses only what nothing can fulfil: a time that may be shorter than another, or makes it idle, is the
// user's to choose. The grace begins when the limit is reached, and the limit includes joining, so neither
// has to fit into another.
void check_times(const CommandLine& line) {
    // A node that falls silent is to be noticed while others still wait for it. What only the default breaks
    // is no contradiction of the user's.
    const bool is_of_conf = line.rdzv_conf.heartbeat == line.heartbeat;
    if ((is_of_conf || line.origins.contains("--heartbeat")) && line.heartbeat >= line.join_timeout)
        contradict(
            line,
            fmt::format(
                "{} {}",
                is_of_conf ? "--rdzv-conf keep_alive_interval times keep_alive_max_attempt:" : "--heartbeat",
                seconds_of(line.heartbeat)),
            is_of_conf ? "" : "--join-timeout",
            fmt::format("must be less than --join-timeout, which is {} s", seconds_of(line.join_timeout)));
    const auto& times = line.features.of<TimeLimitOptions>();
    if (times.warn_before && times.limit && *times.warn_before >= *times.limit)
        contradict(line, "--warn-before " + times.warn_text, "--time-limit",
                   "must be less than --time-limit, which is " + times.limit_text);
}

// The command of --program for all ranks is as good as PROGRAM.
void set_program(CommandLine& line) {
    if (!line.program.empty() || line.makes_secret) return;
    for (const RankCommand& one : line.rank_programs) {
        if (one.ranks == RankSet::all()) line.program = one.words;
    }
    if (!line.program.empty()) return;
    throw UsageError(
        line.rank_programs.empty()
            ? "no program given; usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS…]"
            : "no program given for the ranks that no --program names; PROGRAM, or --program '*:COMMAND'");
}

// Within a worker, one of the variables that it got has the name of an option's (worker_env.hpp).
Environment without_outer_job(Environment environment) {
    if (environment.contains("DDPRUN_RUN_ID")) environment.erase("DDPRUN_MASTER_ADDR");
    return environment;
}

}  // namespace

void refuse_together(const CommandLine& line, const std::string& flag, const std::string& other,
                     const std::string& message) {
    const auto one = line.origins.find(flag), two = line.origins.find(other);
    const bool are_said = one != line.origins.end() && two != line.origins.end();
    if (!are_said || one->second.source == two->second.source) throw UsageError(as_said(line, message));
    const auto& [weaker, stronger] = std::minmax(
        *one, *two, [](const auto& a, const auto& b) { return a.second.source < b.second.source; });
    throw WeakerOption{weaker.first,
                       fmt::format("{}{}: passed over, since {}{} is stronger and excludes it", weaker.first,
                                   origin_text(weaker.second), stronger.first, origin_text(stronger.second))};
}

std::string as_said(const CommandLine& line, const std::string& message) {
    const bool is_endpoints = line.rdzv_endpoint.is_said() && line.rdzv_backend != RdzvBackend::etcd;
    if (is_endpoints && message.starts_with(kMasterAddr))
        return as_said("--rdzv-endpoint" + message.substr(kMasterAddr.size()), line.typed, line.origins);
    const auto sign = line.decided_by.find(message.substr(0, message.find_first_of(" :=")));
    const bool is_counted =
        std::holds_alternative<ForEachGpu>(line.nproc_per_node) && message.starts_with("--nproc-per-node");
    if (sign != line.decided_by.end() && !is_counted && !line.origins.contains(sign->first))
        return with_place(message, {OptionSource::variable, sign->second});
    return as_said(message, line.typed, line.origins);
}

void check_node_rank(const CommandLine& line) {
    if (line.node_rank < line.nnodes) return;
    refuse(line, fmt::format("--node-rank {}", line.node_rank),
           "must be less than --nnodes, which is " + nnodes_said(line));
}

void fill_node_rank(CommandLine& line) {
    const std::pair<const char*, std::string&> paths[] = {
        {"--log-dir", line.output.log_dir},
        {"--log-file", line.log_file},
        {"--events", line.features.of<EventLogOptions>().path},
        {"--result-file", line.result_file}};
    for (const auto& [flag, path] : paths) {
        if (line.detach && path.starts_with("/run/user/"))
            line.remarks.push_back(
                fmt::format("{} {}: goes away with your last session, which the job outlives", flag, path));
        if (!names_node_rank(path)) continue;
        if (line.node_rank == kUnnumbered)
            refuse(line, fmt::format("{} {}", flag, path),
                   "%r, the number of this node, is known only once it has joined; %h tells nodes apart, or "
                   "give --node-rank");
        path = with_node_rank(path, line.node_rank);
    }
}

namespace {

CommandLine parse_without(const DroppedOptions& dropped, const std::vector<std::string>& words,
                          const Environment& environment, const std::string& called, const ToldFiles& files) {
    CLI::App app(kWhatItDoes, "ddprun");
    app.footer(std::string(kExamples) + "\n" + kNotes);
    CommandLine line;
    line.files = files;
    const std::vector<OptionGroup> groups = option_rows(line);
    add_standard_options(app, DDPRUN_VERSION, kUsage);
    LauncherWords own = split_words(app, groups, words, called == kTorchrunName);
    add_typed_rows(app, groups, own.typed);
    line.start.option_words = without_start_words(own.options, groups);
    line.start.program_words = own.program;
    line.program = std::move(own.program);
    line.typed = std::move(own.typed);
    line.valueless = std::move(own.valueless);
    line.show = own.asks_short_help ? fmt::format("Usage: ddprun {}\n{}\n\n{}{}", kUsage, kWhatItDoes,
                                                  kExamples, kShortOptions)
                                    : parse_words(app, groups, std::move(own.options), own.topic);
    if (line.show) return line;
    line.further_programs = take_further_programs(line.program);

    line.told = take_values(app, groups, without_outer_job(environment), line.typed, dropped, files);
    line.origins = origins_of(line.told);
    // A selection goes where its hosts go.
    if (!line.start.is_asked() && (dropped.contains("--hosts") || dropped.contains("--hostfile"))) {
        for (const auto& [flag, value] :
             {std::pair{"--include", &line.start.include}, {"--exclude", &line.start.exclude}}) {
            if (!value->empty() && line.origins.at(flag).source != OptionSource::command_line) value->clear();
        }
    }
    if (line.json && !line.explain && !line.dry_run)
        line.remarks.emplace_back("--json: passed over, it is for --explain and --dry-run");
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) line.own_variables.push_back(variable_of(row));
    }
    line.own_variables.emplace_back(kSecretVariable);
    line.nodes_said = line.standalone || line.origins.contains("--nnodes");
    if (line.quiet) line.verbosity = Verbosity::quiet;
    if (line.verbose) line.verbosity = Verbosity::verbose;
    set_likeness(line, called);
    check_program(line);
    if (line.standalone) set_standalone(line);
    if (line.rdzv_backend != RdzvBackend::etcd && asks_for_free_port(line)) {
        become_one_node(line);
        // No other node could know which port it is, whatever the environment says of others.
        line.nodes_said = true;
    }
    set_master(line);
    set_times(line);
    set_signals(line);
    check_together(line);
    if (line.numa_binding) line.cpu_bind = *line.numa_binding;
    check_times(line);
    set_nodes(line);
    set_program(line);
    for (const auto& [flag, remark] : dropped) {
        if (line.verbose) line.remarks.push_back(remark);
    }
    look_at_program_words(line);
    return line;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& words, const Environment& environment,
                               const std::string& called, DroppedOptions dropped, const ToldFiles& files) {
    for (;;) {
        try {
            return parse_without(dropped, words, environment, called, files);
        } catch (const WeakerOption& weaker) {
            dropped.emplace(weaker.flag, weaker.remark);
        }
    }
}

}  // namespace app
}  // namespace ddprun
