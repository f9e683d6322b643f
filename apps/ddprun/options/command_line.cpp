#include "apps/ddprun/options/command_line.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "apps/cli/print.hpp"
#include "apps/ddprun/options/exclusions.hpp"
#include "apps/ddprun/options/job_options.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun {
inline namespace app {
namespace {

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

[[noreturn]] void refuse(const Said& line, const std::string& flag, const std::string& why) {
    throw UsageError(as_said(line, fmt::format("{}: {}", flag, why)));
}

// One node needs no etcd, so it asks for none.
std::optional<EtcdOptions> etcd_of(const Said& line) {
    if (!line.rdzv_endpoint.is_said())
        refuse(line, "--rdzv-backend etcd", "needs --rdzv-endpoint HOST:PORT, where etcd is");
    if (line.rdzv_endpoint.of_etcd.empty())
        refuse(line, "--rdzv-endpoint " + line.rdzv_endpoint.text, "must be HOST:PORT, where etcd is");
    if (line.nnodes == 1) return std::nullopt;
    EtcdOptions etcd{.endpoints = line.rdzv_endpoint.of_etcd};
    etcd.prefix = line.rdzv_conf.etcd_prefix.value_or(etcd.prefix);
    if (!line.rdzv_conf.is_https) return etcd;
    const TlsFiles& files = line.rdzv_conf.tls_files;
    if (files.key.is_given() && !files.cert.is_given())
        refuse(line, fmt::format("{} {}", files.key.option, files.key.path),
               "needs cert=FILE, the certificate that it is the key of");
    etcd.tls = files;
    return etcd;
}

// Returns what has no effect where etcd elects the host.
std::vector<std::string> passed_over_for_etcd(const Said& line) {
    std::vector<std::string> complaints;
    const TlsFiles& files = line.rdzv_conf.tls_files;
    for (const NamedFile* file : {&files.ca, &files.cert, &files.key}) {
        if (file->is_given() && !line.rdzv_conf.is_https)
            complaints.push_back(
                fmt::format("{} {}: passed over, etcd is asked over http; protocol=https asks it over TLS",
                            file->option, file->path));
    }
    if (line.master_addr)
        complaints.push_back(
            fmt::format("--master-addr {}: passed over; the agent that etcd elects hosts, at the address "
                        "that reaches etcd",
                        *line.master_addr));
    return complaints;
}

// A job that may begin with one node begins with the one that is here.
Said as_one_node(Said line) {
    if (line.elasticity.min_nodes != 1) return line;
    line.nnodes = 1;
    line.elasticity.min_nodes.reset();
    line.elasticity.spares = 0;
    return line;
}

// A job of one node needs no other one, whatever else was said of how nodes find each other.
Said as_standalone(Said line) {
    line = as_one_node(std::move(line));
    line.node_rank = 0;
    line.rdzv_backend = RdzvBackend::fixed;
    line.rdzv_endpoint = {};
    line.master_addr.reset();
    line.master_port.reset();
    return line;
}

// Returns the line with what --like-torchrun and --legacy-launch stand for, where nothing else was said.
Said as_called(Said line, const std::string& called) {
    const auto said = [&line](const char* flag) { return line.origins.contains(flag); };
    if (called == kTorchrunName && !said("--like-torchrun")) line.like_torchrun = true;
    if (called == kLegacyLaunchName && !said("--legacy-launch")) line.legacy_launch = parse_legacy_launch("");
    if (line.use_env) line.legacy_launch.clear();
    if (!line.like_torchrun) return line;
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
    return line;
}

// No other node could know which port that is.
bool asks_for_free_port(const Said& line) { return line.rdzv_endpoint.port == std::uint16_t{0}; }

// Returns the port of the endpoint, which is the stronger, as torchrun has it; nothing: any free one.
std::optional<std::uint16_t> port_of(const Said& line) {
    if (!line.rdzv_endpoint.port || (asks_for_free_port(line) && line.nnodes > 1)) return line.master_port;
    return asks_for_free_port(line) ? std::nullopt : line.rdzv_endpoint.port;
}

// Returns what has no effect for the endpoint; empty: nothing.
std::string passed_over_for_endpoint(const Said& line) {
    const auto& [text, host, port, of_etcd] = line.rdzv_endpoint;
    const bool is_passed_over = line.master_port && port_of(line).value_or(0) != *line.master_port;
    std::string passed_over;
    if (line.master_addr && *line.master_addr != host)
        passed_over = fmt::format("--master-addr {}", *line.master_addr);
    if (is_passed_over)
        passed_over +=
            fmt::format("{}--master-port {}", passed_over.empty() ? "" : " and ", *line.master_port);
    return passed_over.empty() ? "" : fmt::format("--rdzv-endpoint {}: stronger than {}", text, passed_over);
}

// Returns where the nodes meet: all are this machine where no address is said, as torchrun has it. Nobody
// else has to reach the node that is alone.
std::optional<std::string> meeting_address(const Said& line) {
    if (line.master_addr || line.etcd) return line.master_addr;
    if (line.nnodes > 1) return "127.0.0.1";
    return line.local_addr.empty() ? std::nullopt : std::optional(line.local_addr);
}

// Returns the signals that end the job, less those that are passed on.
std::vector<int> ending_signals(const Said& line) {
    std::vector<int> signals = line.terminating_signals;
    std::erase_if(signals, [&line](int signal) { return line.forwarded_signals.contains(signal); });
    return signals;
}

void check_spares(const Said& line) {
    if (line.elasticity.seats(line.nnodes) < *line.elasticity.min_nodes)
        refuse(line, fmt::format("--spares {}", line.elasticity.spares),
               fmt::format("leaves less than the {} nodes of --nnodes {} to work", *line.elasticity.min_nodes,
                           nnodes_text(line)));
}

void check_together(const Said& line) {
    if (line.elasticity.spares > 0) check_spares(line);
    if (line.nproc_per_node == WorkerCount(0) && line.nnodes == 1)
        refuse(line, "--nproc-per-node 0",
               "nothing would run on this one node; 0 is for one of several that only hosts. Did a count of "
               "GPUs find "
               "none? auto takes CPUs then");
    const bool is_numbered = line.nodes_said && !line.start.is_asked();
    if (const std::string wrong = node_rank_complaint(line); is_numbered && !wrong.empty())
        throw UsageError(as_said(line, wrong));
    if (line.nnodes > 1 && line.master_port == std::uint16_t{0} && !line.etcd)
        refuse(line, "--master-port 0", "the nodes must agree on a port; 0 is for one node only");
    if (line.nnodes > 1 && !line.etcd && !line.master_port && asks_for_free_port(line))
        refuse(line, "--rdzv-endpoint " + line.rdzv_endpoint.text,
               "no other node could know which port is free here; 0 is for one node only");
}

// The command of --program for all ranks is as good as PROGRAM.
std::vector<std::string> program_of(const Said& line) {
    if (!line.program.empty() || line.makes_secret) return line.program;
    const auto for_all = std::find_if(line.rank_programs.rbegin(), line.rank_programs.rend(),
                                      [](const RankCommand& one) { return one.ranks == RankSet::all(); });
    if (for_all != line.rank_programs.rend()) return for_all->words;
    throw UsageError(
        line.rank_programs.empty()
            ? "no program given; usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS…]"
            : "no program given for the ranks that no --program names; PROGRAM, or --program '*:COMMAND'");
}

// The file of --config says of a job more than where its nodes are, which is all that counts for doctor's.
// Returns remarks on what is passed over.
std::map<std::string, std::string> drop_told_to_jobs(const std::vector<OptionGroup>& groups,
                                                     std::vector<ToldOption>& told) {
    std::set<std::string> of_nodes;
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) {
            if (row.has(kFindsNodes)) of_nodes.insert(long_name(row));
        }
    }
    std::map<std::string, std::string> remarks;
    std::erase_if(told, [&](const ToldOption& option) {
        const OptionOrigin& origin = option.told.front().origin;
        if (origin.source != OptionSource::config_file || of_nodes.contains(option.name)) return false;
        remarks[option.name] = option.name + ": passed over, doctor starts no program" + origin_text(origin);
        return true;
    });
    return remarks;
}

// The hosts of a job are no matter of an agent that was started on one of them.
bool names_hosts(const ToldOption& option) {
    return option.name == "--hosts" || option.name == "--hostfile" || option.name == "--include" ||
           option.name == "--exclude";
}

// A selection goes where its hosts go.
void drop_selection(Said& line, const std::map<std::string, std::string>& dropped) {
    if (line.start.is_asked() || (!dropped.contains("--hosts") && !dropped.contains("--hostfile"))) return;
    for (const auto& [flag, value] :
         {std::pair{"--include", &line.start.include}, {"--exclude", &line.start.exclude}}) {
        if (!value->empty() && line.origins.at(flag).source != OptionSource::command_line) value->clear();
    }
}

// Returns the line with what follows from its values.
Said derived(Said line) {
    line.nodes_said = line.standalone || line.origins.contains("--nnodes");
    if (line.quiet) line.verbosity = Verbosity::quiet;
    if (line.verbose) line.verbosity = Verbosity::verbose;
    if (line.standalone) line = as_standalone(std::move(line));
    if (line.rdzv_backend != RdzvBackend::etcd && asks_for_free_port(line)) {
        line = as_one_node(std::move(line));
        // Whatever the environment says of others.
        line.nodes_said = true;
    }
    if (line.rdzv_backend == RdzvBackend::etcd) {
        line.etcd = etcd_of(line);
    } else if (line.rdzv_endpoint.is_said()) {
        if (line.rdzv_endpoint.host.empty())
            refuse(line, "--rdzv-endpoint " + line.rdzv_endpoint.text,
                   "several endpoints are for --rdzv-backend etcd only");
        if (std::string remark = passed_over_for_endpoint(line); !remark.empty())
            line.remarks.push_back(std::move(remark));
        line.master_port = port_of(line);
        line.master_addr = line.rdzv_endpoint.host;
    }
    if (line.etcd) {
        for (std::string& complaint : passed_over_for_etcd(line))
            line.rdzv_conf.complaints.push_back(std::move(complaint));
        line.master_addr.reset();
        line.hosting = Hosting::no;  // until it is elected
    }
    const auto [join_timeout, heartbeat, last_call] = said_times(line);
    line.join_timeout = join_timeout;
    line.heartbeat = heartbeat;
    line.elasticity.last_call = last_call;
    line.terminating_signals = ending_signals(line);
    for (const int signal : line.requeue_signals) line.forwarded_signals.emplace(signal, signal);
    check_together(line);
    line.cpu_bind = line.numa_binding.value_or(line.cpu_bind);
    // As if nothing was said: nobody is reached there.
    if (is_wildcard(line.local_addr)) line.local_addr.clear();
    line.address_assumed = line.nnodes > 1 && !line.master_addr && !line.etcd;
    line.master_addr = meeting_address(line);
    // Under c10d and etcd only an explicit number counts.
    if (line.rdzv_backend != RdzvBackend::fixed && line.nnodes == 1) {
        line.hosting = Hosting::yes;
    } else if (line.rdzv_backend != RdzvBackend::fixed && !line.origins.contains("--node-rank")) {
        line.node_rank = kUnnumbered;
    }
    line.program = program_of(line);
    return line;
}

// Returns the line of an agent on a started host: the starter's plan says it all, and the host's environment
// nothing about this job.
Said as_started(Said line, const Starter& starter) {
    line.scheduler = "none";
    const auto& hosts = starter.hosts;
    if (hosts.size() == static_cast<std::size_t>(line.nnodes) && line.master_addr == hosts.front())
        line.origins["--master-addr"] = {OptionSource::variable, "the first host of --hosts"};
    line.starter = starter;
    return line;
}

// Within a worker, one of the variables that it got has the name of an option's (worker_env.hpp).
Environment without_outer_job(Environment environment) {
    if (environment.contains("DDPRUN_RUN_ID")) environment.erase("DDPRUN_MASTER_ADDR");
    return environment;
}

}  // namespace

bool is_doctors_job(const std::vector<std::string>& program) {
    return program.size() > 2 && program[0] == kThisProgram && program[1] == kDoctorWord &&
           program[2] == kNodeRoleFlag;
}

Said parse_command_line(const std::vector<std::string>& words, const Environment& environment,
                        const std::string& called, const ToldFiles& files,
                        const std::optional<Starter>& starter) {
    CLI::App app(kWhatItDoes, "ddprun");
    app.footer(std::string(kExamples) + "\n" + kNotes);
    Said line;
    const std::vector<OptionGroup> groups = option_rows(line);
    add_standard_options(app, DDPRUN_VERSION, kUsage);
    LauncherWords own = split_words(app, groups, words, called == kTorchrunName);
    add_typed_rows(app, groups, own.typed);
    const std::vector<std::string> option_words = without_start_words(own.options, groups);
    line.show = own.asks_short_help ? fmt::format("Usage: ddprun {}\n{}\n\n{}{}", kUsage, kWhatItDoes,
                                                  kExamples, kShortOptions)
                                    : parse_words(app, groups, std::move(own.options), own.topic);
    if (line.show) return line;

    const Environment variables = without_outer_job(environment);
    std::vector<ToldOption> told = told_options(app, groups, variables, files);
    if (starter) std::erase_if(told, names_hosts);
    std::map<std::string, std::string> dropped;  // options, and remarks on them
    const auto take_values = [&] {
        line = {};
        line.files = files;
        line.typed = own.typed;
        set_rows(groups, told, variables, own.typed);
        line.origins = origins_of(told);
        line = as_called(std::move(line), called);
    };
    take_values();
    if (is_doctors_job(own.program)) dropped = drop_told_to_jobs(groups, told);
    if (!dropped.empty()) take_values();
    while (const auto weaker = weaker_option(line)) {
        dropped.emplace(weaker->flag, weaker->remark);
        std::erase_if(told, [&](const ToldOption& option) { return option.name == weaker->flag; });
        take_values();
    }
    if (const auto clash = clash_of(line)) throw UsageError(as_said(line, clash->text()));
    line.start.option_words = option_words;
    line.start.program_words = own.program;
    line.program = std::move(own.program);
    line.valueless = std::move(own.valueless);
    line.further_programs = take_further_programs(line.program);
    line.told = std::move(told);
    drop_selection(line, dropped);
    if (line.json && !line.explain && !line.dry_run)
        line.remarks.emplace_back("--json: passed over, it is for --explain and --dry-run");
    for (const OptionGroup& group : groups) {
        for (const OptionRow& row : group.rows) line.own_variables.push_back(variable_of(row));
    }
    line.own_variables.emplace_back(kSecretVariable);
    line = derived(std::move(line));
    for (const auto& [flag, remark] : dropped) {
        if (line.verbose) line.remarks.push_back(remark);
    }
    look_at_program_words(line);
    if (starter) return as_started(std::move(line), *starter);
    return line;
}

}  // namespace app
}  // namespace ddprun
