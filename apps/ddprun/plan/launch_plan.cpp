#include "apps/ddprun/plan/launch_plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "apps/ddprun/options/job_options.hpp"
#include "apps/ddprun/options/option_values.hpp"
#include "launcher/agent/agent_link.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/cluster/family.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/features/health_port.hpp"
#include "launcher/features/time_limit.hpp"
#include "launcher/features/watchdog.hpp"
#include "launcher/plan/own_address.hpp"
#include "launcher/plan/program.hpp"
#include "launcher/plan/program_words.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace app {
namespace {

// A job's host may be at so many ports from kDefaultC10dPort on, if it was not asked for a port by number.
constexpr int kC10dPorts = 8;
constexpr const char* kNoRunId = "none";  // the default: any job's
constexpr const char* kTrustedFile = "SSL_CERT_FILE";
constexpr const char* kSchedulerEnd = "SLURM_JOB_END_TIME";

std::string interpreter_text(const NodeFacts& facts) {
    if (facts.python.empty() || !facts.other_venv) return facts.python;
    const std::string venv = facts.variable("VIRTUAL_ENV").value_or("");
    return fmt::format("{0}, but VIRTUAL_ENV is {1}; PYTHON_EXEC={1}/bin/python3 takes that one",
                       facts.python, venv);
}

int local_world_size(const JobPlan& job, const NodeFacts& facts) {
    if (const int* number = std::get_if<int>(&job.nproc_per_node)) return *number;
    const NodeDevices& devices = facts.hardware.devices;
    const auto* counted = std::get_if<CountedBy>(&job.nproc_per_node);
    if (counted == nullptr)
        return devices.count > 0 ? devices.count : std::get<ForEachGpu>(job.nproc_per_node).otherwise;
    if (*counted == CountedBy::cpu) return facts.hardware.usable_cpus;
    if (*counted == CountedBy::automatic)
        return devices.count > 0 ? devices.count : facts.hardware.usable_cpus;
    if (*counted == CountedBy::xpu && (devices.count == 0 || devices.vendor != GpuVendor::intel))
        throw UsageError(fmt::format(
            "--nproc-per-node xpu: this node has no GPU of Intel's (/dev/dri){}",
            devices.count > 0 ? fmt::format(", but others ({}), which gpu counts", devices.source) : ""));
    if (devices.count == 0)
        throw UsageError(
            fmt::format("--nproc-per-node {}: this node has no GPU that could be counted ({}, /dev/kfd, "
                        "/dev/dri); give a number if it has",
                        workers_text(job.nproc_per_node), devices.source));
    return devices.count;
}

bool is_module(const JobPlan& job) { return job.module && !job.run_path; }

Program program_of(const std::vector<std::string>& words, const JobPlan& job, const NodeFacts& facts) {
    const bool is_first = &words == &job.program;  // which -m and its like are about
    const auto file = facts.files.find(words.front());
    return value_or_throw<UsageError>(
        choose_program({.program = words.front(),
                        .arguments = {words.begin() + 1, words.end()},
                        .module = is_first && job.module,
                        .no_python = job.no_python,
                        .python = is_first && job.python,
                        .run_path = is_first && job.run_path,
                        .file = file == facts.files.end() ? ProgramFile{} : file->second,
                        .local_rank_option = is_first ? job.legacy_launch : "",
                        .substitutes_all = job.like_torchrun,
                        .python_exec = python_exec_of(facts)}));
}

std::string workers_source(const JobPlan& job) {
    const bool is_scheduler = std::holds_alternative<ForEachGpu>(job.nproc_per_node);
    std::string source = (is_scheduler ? "" : "--nproc-per-node ") + workers_text(job.nproc_per_node);
    for (const NodeProgram& further : job.further_programs) source += fmt::format(" : {}", further.workers);
    return source;
}

// Returns the program of each local rank.
std::vector<Program> programs_of(const JobPlan& job, const NodeFacts& facts) {
    std::vector<Program> programs(static_cast<std::size_t>(local_world_size(job, facts)),
                                  program_of(job.program, job, facts));
    for (const NodeProgram& further : job.further_programs)
        programs.insert(programs.end(), static_cast<std::size_t>(further.workers),
                        program_of(further.words, job, facts));
    if (programs.size() > kMaxWorkersPerNode)
        throw UsageError(fmt::format("{}: {} workers, must be at most {}", workers_source(job),
                                     programs.size(), kMaxWorkersPerNode));
    return programs;
}

using Words = std::vector<std::string>;

// Returns the command of this node, with what `part` leaves of each program's words.
Words command_of(const JobPlan& job, const std::function<Words(const Words&)>& part) {
    Words command;
    const auto add = [&](const char* before, const Words& words) {
        if (before != nullptr) command.emplace_back(before);
        const Words left = part(words);
        command.insert(command.end(), left.begin(), left.end());
    };
    add(is_module(job) ? "-m" : nullptr, job.program);
    for (const NodeProgram& further : job.further_programs) add(":", further.words);
    for (const RankCommand& one : job.rank_programs) add("--program", one.words);
    return command;
}

BindingRequest binding_request(const JobPlan& job, const NodeFacts& facts, int workers) {
    return {.bind = job.virtual_local_rank ? GpuBind::single : job.gpu_bind,
            .share_gpus = job.share_gpus,
            .local_workers = workers,
            .workers_source = workers_source(job),
            .devices = with_uncounted(facts.hardware.devices, job.share_gpus ? 0 : workers)};
}

// The user who leaves the number to the launcher hears that there may be more.
std::string uncounted_devices(const JobPlan& job, const NodeFacts& facts) {
    const NodeDevices& devices = facts.hardware.devices;
    const bool by_number = std::holds_alternative<int>(job.nproc_per_node);
    if (devices.uncounted.empty() || by_number || job.nproc_per_node == WorkerCount(CountedBy::cpu))
        return {};
    return fmt::format(
        "{} GPU{} ({}), but {} could not be counted: give --nproc-per-node a number if there are more",
        devices.count, devices.count == 1 ? "" : "s", devices.source, devices.uncounted);
}

// WorkerPlans make what workers get over the environment that they inherit; not what that says already.
class WorkerPlans {
  public:
    WorkerPlans(const JobPlan& job, const NodeFacts& facts, const Environment& inherited, int workers)
        : job_(job),
          inherited_(inherited),
          devices_(binding_request(job, facts, workers)),
          placement_(value_or_throw<UsageError>(place_workers(devices_, job.cpu_bind, facts.hardware))) {}

    WorkerPlan of(const Program& program, int local_rank) const {
        const PlacedWorker& place = placement_.workers.at(static_cast<std::size_t>(local_rank));
        return {.argv = argv_for_worker(program, local_rank),
                .additions = additions(program.kind, place, local_rank),
                .cpus = place.placement.cpus,
                .memory_node = place.placement.memory_node,
                .place = place.text,
                .sees_one_gpu =
                    bind_of(devices_.bind, program.kind) == GpuBind::single && devices_.devices.count > 1,
                .is_beyond_gpus = devices_.devices.count > 0 && local_rank >= devices_.devices.count};
    }

    const std::string& remark() const { return placement_.remark; }

  private:
    Environment additions(ProgramKind kind, const PlacedWorker& place, int local_rank) const {
        const NodeDevices& devices = devices_.devices;
        const DeviceBinding binding = bind_device(devices_, kind, local_rank);
        Environment additions;
        if (binding.mask) additions[devices.variable] = *binding.mask;
        if (binding.ddprun_device) additions["DDPRUN_DEVICE"] = *binding.ddprun_device;
        // torchrun does so where there is no GPU, and nobody has masked any.
        if (job_.virtual_local_rank && !binding.mask && !devices.mask)
            additions[devices.variable] = std::to_string(local_rank);
        if (!place.placement.nic.empty()) additions["DDPRUN_NIC"] = place.placement.nic;
        if (!job_.like_torchrun) add_for_python(additions, kind);
        const bool is_asked = !inherited_.contains("OMP_NUM_THREADS");
        if (is_asked && job_.omp_threads == OmpThreads::cpus)
            additions["OMP_NUM_THREADS"] = std::to_string(place.threads);
        if (is_asked && job_.omp_threads == OmpThreads::one && devices_.local_workers > 1)
            additions["OMP_NUM_THREADS"] = "1";
        return additions;
    }

    void add_for_python(Environment& additions, ProgramKind kind) const {
        const auto add = [&](const char* name) {
            if (!inherited_.contains(name)) additions[name] = "1";
        };
        // A program that ddprun runs by Python has -u.
        if (kind == ProgramKind::python) add("PYTHONUNBUFFERED");
        // A crash's place in the program then stands in its last lines.
        if (kind == ProgramKind::python || kind == ProgramKind::by_python) add("PYTHONFAULTHANDLER");
    }

    const JobPlan& job_;
    const Environment& inherited_;
    BindingRequest devices_;
    NodePlacement placement_;
};

Environment inherited_environment(const JobPlan& job, const NodeFacts& facts) {
    Environment environment =
        job.clean_environment ? clean_environment(facts.environment) : facts.environment;
    environment.erase(kHealthPortVariable);  // a ddprun within a worker would want the same port
    for (const auto& [name, value] : job.variables) environment[name] = value;
    for (const std::string& name : job.own_variables) environment.erase(name);
    if (!job.networks.empty()) environment["DDPRUN_NET"] = job.networks;
    if (job.port_range) environment[kPortRangeVariable] = to_string(*job.port_range);
    environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = job.signals_text;
    return environment;
}

// Says where the scheduler's count is not this node's: a driver is not there, the user masks GPUs, a step has
// got fewer.
std::string gpu_difference(const JobPlan& job, const NodeFacts& facts) {
    const auto told = whole_number<int>(facts.variable(job.part.gpus_told_by).value_or(""), 0);
    const NodeDevices& devices = facts.hardware.devices;
    if (!told || *told == devices.count) return "";
    return fmt::format("{}={}, but {} has {} GPU{} for this job ({})", job.part.gpus_told_by, *told,
                       facts.host_name, devices.count, devices.count == 1 ? "" : "s", devices.source);
}

// A terminal is the launcher's own: a worker reads it only if --stdin says so.
StandardInput standard_input_of(const JobPlan& job, const NodeFacts& facts) {
    if (job.tty_rank || job.detach) return {};
    const bool is_said = job.origins.contains("--stdin") || job.standard_input.all;
    return is_said || facts.stdin_is_terminal ? job.standard_input : StandardInput{.rank = 0};
}

// --net has no meaning for a node that is alone, nor for one without workers, which may host in another
// network.
OwnAddress own_address_of(const JobPlan& job, const NodeFacts& facts, std::size_t workers) {
    const std::string networks = workers > 0 && job.nnodes > 1 ? job.networks : "";
    return value_or_throw<UsageError>(
        choose_own_address({.local_addr = job.local_addr,
                            .resolved = facts.local.value_or(std::vector<std::string>{}),
                            .networks = networks,
                            .own = facts.addresses}));
}

bool means_all_addresses(const JobPlan& job) { return job.master_addr && is_wildcard(*job.master_addr); }

// Returns which of this node's addresses is told to its workers where the user means all: the one that was
// said, else the first that leads out, IPv4 before IPv6. Only the node that hosts can mean its own.
std::string address_for_all(const JobPlan& job, const OwnAddress& said, const NodeFacts& facts) {
    const bool hosts =
        job.rdzv_backend == RdzvBackend::fixed ? job.node_rank == 0 : job.rdzv_conf.is_host.value_or(false);
    if (job.nnodes == 1) return "127.0.0.1";
    if (!hosts)
        throw UsageError(fmt::format(
            "--master-addr {}: stands for all addresses of node 0, and there alone{}; the "
            "other nodes need the one by which they reach it",
            *job.master_addr, job.rdzv_backend == RdzvBackend::c10d ? ", with --rdzv-conf is_host=1" : ""));
    if (!said.address.empty()) return said.address;
    const auto find = [&](bool is_v6) {
        return std::find_if(facts.addresses.begin(), facts.addresses.end(), [&](const LocalAddress& own) {
            return !own.is_loopback && (own.address.find(':') != std::string::npos) == is_v6;
        });
    };
    const auto v4 = find(false), found = v4 != facts.addresses.end() ? v4 : find(true);
    return found != facts.addresses.end() ? found->address : "127.0.0.1";
}

// The machine hosts under c10d whose address the endpoint is, unless the user says who.
Hosting hosting_of(const JobPlan& job, const NodeFacts& facts) {
    if (job.rdzv_backend != RdzvBackend::c10d || job.hosting == Hosting::yes) return job.hosting;
    if (job.rdzv_conf.is_host) return *job.rdzv_conf.is_host ? Hosting::yes : Hosting::no;
    if (!facts.master) return Hosting::no;
    const auto* resolved = std::get_if<std::vector<std::string>>(&*facts.master);
    if (resolved == nullptr) return Hosting::if_here;
    const bool is_here = has_own_address(*resolved, facts.addresses);
    return is_here ? Hosting::if_first : Hosting::no;
}

// Slurm's list counts where the host numbers the nodes and the user has not numbered this one; else that of
// the nodes' numbers.
HostList host_list_of(const JobPlan& job, const NodeFacts& facts) {
    const bool is_asked = job.nnodes > 1 && job.node_rank == kUnnumbered;
    if (!is_asked) return job.part.host_list;
    return slurm_host_list({.environment = facts.environment, .host_name = facts.host_name});
}

// Nobody asks for a port by number here. A job without an id has one port only, since another one could be
// taken for it.
PortRange master_ports_in(const PortRange& range, const JobPlan& job) {
    if (job.run_id == kNoRunId) return {range.first, range.first};
    const std::uint16_t first = port_of_job(job.run_id, range);
    return {first, static_cast<std::uint16_t>(first + derived_ports(range) - 1)};
}

// Node 0 hosts at the first of these that is free; 0 alone: any.
PortRange master_ports_of(const JobPlan& job) {
    const bool is_c10d = job.rdzv_backend == RdzvBackend::c10d;
    if (job.master_port) {
        const int more =
            job.part.port_derived ? derived_ports(job.port_range.value_or(kDerivedPortRange)) - 1 : 0;
        return {*job.master_port, static_cast<std::uint16_t>(*job.master_port + more)};
    }
    if (job.nnodes == 1 || job.etcd) return {0, 0};
    if (job.port_range) return master_ports_in(*job.port_range, job);
    if (!is_c10d) return {kDefaultMasterPort, kDefaultMasterPort};
    const int more = job.run_id == kNoRunId ? 0 : kC10dPorts - 1;
    return {kDefaultC10dPort, static_cast<std::uint16_t>(kDefaultC10dPort + more)};
}

ListenPlan listen_plan_of(const JobPlan& job, Hosting hosting, const NodeFacts& facts) {
    // Any agent may be elected.
    if (job.etcd) return {.any = true};
    if (means_all_addresses(job)) return {.any = job.nnodes > 1};
    if (!facts.master || hosting == Hosting::no) return {.any = job.listen_any};
    return value_or_throw<UsageError>(plan_listening({.nnodes = job.nnodes,
                                                      .any = job.listen_any,
                                                      .master_addr = *job.master_addr,
                                                      .resolved = *facts.master,
                                                      .own = facts.addresses}));
}

// The job's end has to be known where something is to happen before it.
std::optional<std::int64_t> scheduler_end_of(const JobPlan& job, const NodeFacts& facts) {
    const auto& times = job.features.of<TimeLimitOptions>();
    if (!times.warn_before) return std::nullopt;
    const std::string text = facts.variable(kSchedulerEnd).value_or("");
    const auto end = parse_scheduler_end(text);
    if (end || (text.empty() && times.limit)) return end;
    const std::string why =
        text.empty()
            ? fmt::format("no limit is known; give --time-limit, or run where Slurm sets {}", kSchedulerEnd)
            : fmt::format("{} is '{}', no time in seconds since 1970", kSchedulerEnd, text);
    throw UsageError(fmt::format("--warn-before {}: {}", times.warn_text, why));
}

// Ranks are checked on one node only. Of more nodes another one may have more workers, and the number of all
// workers is known when the round begins (RoundWorkers).
void check_ranks(const LaunchOptions& options) {
    if (options.nnodes > 1) return;
    auto wrong = rank_beyond_job(options, static_cast<int>(options.workers.size()));
    if (!wrong) wrong = local_rank_beyond_node(options);
    if (wrong) throw UsageError(*wrong);
}

// OpenSSL's own variable says whom to trust, where the user names nobody.
void trust_as_told(LaunchOptions& options, const NodeFacts& facts) {
    if (!options.etcd || !options.etcd->tls || options.etcd->tls->ca.is_given()) return;
    options.etcd->tls->ca = {kTrustedFile, facts.variable(kTrustedFile).value_or("")};
}

// Guesses what was meant by a program that is not there: "; did you mean ./train?", for the end of the error.
std::string meant_program(const JobPlan& job, const NodeFacts& facts) {
    const std::string& name = job.program.front();
    const auto meant = [](const std::string& words) { return fmt::format("; did you mean {}?", words); };
    const auto is_one_of = [](const std::string& word, std::string_view words) {
        const auto all = split_at(words, ' ');
        return std::find(all.begin(), all.end(), word) != all.end();
    };
    if (!job.valueless.empty()) return meant(job.valueless + "=" + name);
    if (is_python(name) && name.find('/') == name.npos)
        return facts.python_instead.empty() ? "" : meant(facts.python_instead);
    if (name.find_first_not_of("0123456789") == name.npos) return meant("--nproc-per-node " + name);
    const std::string option = "--" + name.substr(0, name.find('='));
    Said unused;
    for (const OptionGroup& group : option_rows(unused)) {
        for (const OptionRow& row : group.rows) {
            if (long_name(row) == option) return meant("--" + name);
        }
    }
    if (is_one_of(name, "help version")) return meant(option);
    if (is_one_of(name, "list status logs attach kill")) return meant("ddpctl " + name);
    if (job.program.size() > 1 && is_one_of(name, "run launch start exec"))
        return meant("ddprun " + job.program[1]);
    const bool is_path = name.find('/') != name.npos;
    // Python needs no folder in front of a script, the system does.
    const auto written = [&](const std::string& file) {
        const bool is_whole = is_path || (file.ends_with(".py") && !job.no_python);
        return is_whole ? file : "./" + file;
    };
    const std::string folder = name.substr(0, name.rfind('/') + 1);
    std::vector<std::string> near;
    for (const std::string& file : facts.neighbours) {
        std::string other = written(folder + file);
        if (other == name) continue;  // a link that leads nowhere
        near.push_back(std::move(other));
        if ((file == name && !is_path) || folder + file == name + ".py") return meant(near.back());
    }
    const bool is_nearly_python =
        !facts.python_instead.empty() && !did_you_mean(name, {"python", "python3"}).empty();
    const std::string otherwise = is_nearly_python ? meant(facts.python_instead) : meant_for_shell(name);
    return did_you_mean(name, {"doctor"}, did_you_mean(written(name), near, otherwise));
}

void name_program(LaunchOptions& options, const JobPlan& job, const Program& program) {
    const bool is_doctor = is_doctors_job(job.program);
    options.entry_name = is_doctor ? "ddprun doctor" : program.entry_name;
    options.known_as = is_doctor ? "doctor" : known_name(program_words(job.program));
    if (is_doctor) options.told_exit_code = kExitProblem;
}

}  // namespace

std::optional<ProgramFault> program_fault(const JobPlan& job, const NodeFacts& facts) {
    std::vector<std::pair<std::string, Words>> further;  // with the flags that name them
    for (const NodeProgram& one : job.further_programs) further.emplace_back("", one.words);
    for (const RankCommand& one : job.rank_programs) further.emplace_back("--program ", one.words);
    for (const RankCommand& one : job.wraps) further.emplace_back("--wrap ", one.words);
    Program program = program_of(job.program, job, facts);
    if (program.fault && program.fault->exit_code == kExitNotFound)
        program.fault->text += meant_program(job, facts);
    std::string flag;
    for (auto one = further.begin(); !program.fault && one != further.end(); ++one) {
        program = program_of(one->second, job, facts);
        flag = one->first;
    }
    if (!program.fault && program.kind == ProgramKind::by_python && facts.python_fault) {
        const bool is_said = !facts.variable("PYTHON_EXEC").value_or("").empty();
        return ProgramFault{fmt::format("{}: {}{}", program.argv.front(), facts.python_fault->text,
                                        is_said ? " (from PYTHON_EXEC)" : "; PYTHON_EXEC names another one"),
                            facts.python_fault->exit_code};
    }
    if (program.fault)
        program.fault->text =
            as_said(job, fmt::format("{}{}: {}", flag, program.entry_name, program.fault->text));
    return program.fault;
}

PathFacts path_facts_of(const JobPlan& job, const NodeFacts& facts) {
    return {facts.start_unix_s, job.standalone ? facts.fresh_id : job.run_id, facts.host_name};
}

LaunchOptions resolve_launch(const JobPlan& job, const NodeFacts& facts) {
    const std::vector<Program> programs = programs_of(job, facts);
    const OwnAddress own_address = own_address_of(job, facts, programs.size());
    const int workers = static_cast<int>(programs.size());
    const Program program = program_of(job.program, job, facts);

    LaunchOptions options;
    static_cast<AgentOptions&>(options) = job;
    options.environment = inherited_environment(job, facts);
    const WorkerPlans plans(job, facts, options.environment, workers);
    if (job.standalone) options.run_id = facts.fresh_id;
    options.standard_input = standard_input_of(job, facts);
    trust_as_told(options, facts);
    options.master.host = means_all_addresses(job)
                              ? address_for_all(job, own_address, facts)
                              : job.master_addr.value_or(job.etcd ? "" : options.master.host);
    options.master_source = job.master_source;
    options.shares_screen = job.part.shares_screen;
    options.is_started = job.starter.has_value();
    options.read_program = job.read_program;
    const PortRange master_ports = master_ports_of(job);
    options.master.port = master_ports.first;
    options.master_ports = master_ports.size();
    options.host_list = host_list_of(job, facts);
    options.rank_order = facts.rank_order.text;
    options.hosting = hosting_of(job, facts);
    options.listen = listen_plan_of(job, options.hosting, facts);
    options.own_address = own_address;
    options.is_master_unresolved = facts.master && std::holds_alternative<std::string>(*facts.master);
    options.command = command_of(job, [](const Words& words) { return words; });
    options.program_words = command_of(job, program_words);
    options.own_error_file = facts.variable("TORCHELASTIC_ERROR_FILE").value_or("");
    if (wants_timers(facts.environment))
        options.features.of<WatchdogOptions>().place = facts.variable(kTimerFileVariable).value_or("");
    name_program(options, job, program);
    const bool by_python = program.kind == ProgramKind::by_python;
    options.interpreter = by_python ? interpreter_text(facts) : facts.python_of_words;
    options.start = facts.start;
    options.start_unix_s = facts.start_unix_s;
    options.join_spent = facts.join_spent;
    options.features.of<FailureJudgeOptions>().program = facts.on_failure;
    options.features.of<TimeLimitOptions>().scheduler_end_unix_ms = scheduler_end_of(job, facts);
    if (by_python && !is_module(job)) options.python_script = program.entry_name;
    options.hangup_ignored = facts.hangup_ignored;
    options.terminal_stop_ignored = facts.terminal_stop_ignored;
    for (int local_rank = 0; local_rank < workers; ++local_rank)
        options.workers.push_back(plans.of(programs[static_cast<std::size_t>(local_rank)], local_rank));
    for (const RankCommand& one : job.rank_programs) {
        RankPlan& own = options.programs.emplace_back(RankPlan{one, {}});
        const Program of_ranks = program_of(one.words, job, facts);
        for (int local_rank = 0; local_rank < workers; ++local_rank)
            own.workers.push_back(plans.of(of_ranks, local_rank));
    }
    for (const std::string& remark :
         {facts.hardware.devices.remark, gpu_difference(job, facts), uncounted_devices(job, facts),
          plans.remark(), facts.rank_order.complaint, by_python ? facts.other_python : ""}) {
        if (!remark.empty()) options.placement_remarks.push_back(remark);
    }
    const auto* for_gpus = std::get_if<ForEachGpu>(&job.nproc_per_node);
    if (for_gpus != nullptr && facts.hardware.devices.count == 0 && speaks_for_all(options))
        options.placement_remarks.push_back(
            fmt::format("{} on this node, which has no GPU (see --nproc-per-node)",
                        for_gpus->otherwise == 1
                            ? "one worker"
                            : fmt::format("{} workers, as the allocation has slots,", for_gpus->otherwise)));
    check_ranks(options);
    return options;
}

}  // namespace app
}  // namespace ddprun
