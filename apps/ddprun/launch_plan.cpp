#include "apps/ddprun/launch_plan.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "apps/ddprun/option_values.hpp"
#include "launcher/agent/job_terms.hpp"
#include "launcher/agent/rank_limits.hpp"
#include "launcher/cluster/allocation.hpp"
#include "launcher/plan/carrier_interface.hpp"
#include "launcher/plan/node_resources.hpp"
#include "launcher/plan/program.hpp"
#include "launcher/plan/program_file.hpp"
#include "launcher/process/exec_search.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/worker/peer_tasks.hpp"

namespace ddprun {
namespace {

constexpr std::uint16_t kDefaultMasterPort = 29500;  // torchrun's …
constexpr std::uint16_t kDefaultC10dPort = 29400;    // … and that of its c10d backend
// Those from kDefaultC10dPort on where a job's host may be that was not asked for a port by number.
constexpr int kC10dPorts = 8;
constexpr const char* kNoRunId = "none";  // the default: any job's
constexpr const char* kTrustedFile = "SSL_CERT_FILE";
constexpr const char* kSchedulerEnd = "SLURM_JOB_END_TIME";

std::optional<std::string> find(const Environment& environment, const std::string& name) {
    const std::string* value = find_variable(environment, name);
    return value != nullptr ? std::optional(*value) : std::nullopt;
}

// A virtual environment's python3 is a link to another one, so the folder it lies in decides.
bool is_of_venv(const std::string& python, const std::string& venv) {
    std::error_code ignored;
    const auto prefix = std::filesystem::path(python).parent_path().parent_path();
    return std::filesystem::equivalent(prefix, venv, ignored);
}

// The python3 of the virtual environment that a program is in, or a link to it; empty: it is in none.
std::string venv_python_beside(const std::filesystem::path& program) {
    if (program.empty()) return {};
    std::error_code ignored;
    const auto python = program.parent_path() / "python3";
    const bool is_in_venv =
        std::filesystem::exists(program.parent_path().parent_path() / "pyvenv.cfg", ignored) &&
        std::filesystem::exists(python, ignored);
    return is_in_venv ? python.string() : "";
}

std::string interpreter_text(const NodeFacts& facts) {
    if (facts.python.empty() || !facts.other_venv) return facts.python;
    const std::string venv = find(facts.environment, "VIRTUAL_ENV").value_or("");
    return fmt::format("{0}, but VIRTUAL_ENV is {1}; PYTHON_EXEC={1}/bin/python3 takes that one",
                       facts.python, venv);
}

int local_world_size(const CommandLine& line, const NodeFacts& facts) {
    if (line.nproc_per_node == "gpu" && facts.devices.count == 0)
        throw UsageError(
            fmt::format("--nproc-per-node gpu: this node has no GPU ({})", facts.devices.source));
    if (line.nproc_per_node == "gpu") return facts.devices.count;
    if (line.nproc_per_node == "cpu") return facts.usable_cpus;
    if (line.nproc_per_node == "auto")
        return facts.devices.count > 0 ? facts.devices.count : facts.usable_cpus;
    return std::stoi(line.nproc_per_node);
}

// The user's own, or else that of the virtual environment where torchrun's place was taken.
std::optional<std::string> python_exec_of(const NodeFacts& facts) {
    const auto said = find(facts.environment, "PYTHON_EXEC");
    return said || facts.venv_python.empty() ? said : facts.venv_python;
}

Program program_of(const CommandLine& line, const NodeFacts& facts) {
    return value_or_throw<UsageError>(
        choose_program({.program = line.program.front(),
                        .arguments = {line.program.begin() + 1, line.program.end()},
                        .module = line.module,
                        .no_python = line.no_python,
                        .python = line.python,
                        .run_path = line.run_path,
                        .is_for_python = facts.program_is_pythons,
                        .local_rank_option = line.legacy_launch,
                        .substitutes_all = line.like_torchrun,
                        .python_exec = python_exec_of(facts)}));
}

std::vector<DeviceBinding> bindings_of(const CommandLine& line, const NodeFacts& facts,
                                       const Program& program, int workers) {
    return value_or_throw<UsageError>(
        bind_devices({.bind = line.virtual_local_rank ? GpuBind::single : line.gpu_bind,
                      .share_gpus = line.share_gpus,
                      .is_python = program.is_python,
                      .local_workers = workers,
                      .workers_source = "--nproc-per-node " + line.nproc_per_node,
                      .devices = facts.devices}));
}

// Of one local rank, over the inherited environment.
Environment additions_of(const CommandLine& line, const NodeFacts& facts, const Program& program,
                         const DeviceBinding& binding, int local_rank, int workers) {
    Environment additions;
    if (binding.cuda_visible_devices) additions["CUDA_VISIBLE_DEVICES"] = *binding.cuda_visible_devices;
    if (binding.ddprun_device) additions["DDPRUN_DEVICE"] = *binding.ddprun_device;
    // As torchrun has it where there is no GPU, and nobody has said so.
    if (line.virtual_local_rank && !binding.cuda_visible_devices && !facts.devices.mask)
        additions["CUDA_VISIBLE_DEVICES"] = std::to_string(local_rank);
    // A crash's place in the program then stands in its last lines.
    if (program.is_python && !line.like_torchrun && !facts.environment.contains("PYTHONFAULTHANDLER"))
        additions["PYTHONFAULTHANDLER"] = "1";
    const bool is_asked = !facts.environment.contains("OMP_NUM_THREADS");
    if (is_asked && line.omp_threads == OmpThreads::cpus)
        additions["OMP_NUM_THREADS"] = std::to_string(omp_threads(facts.usable_cpus, workers));
    if (is_asked && line.omp_threads == OmpThreads::one && workers > 1) additions["OMP_NUM_THREADS"] = "1";
    return additions;
}

// A terminal is the launcher's; who reads it has to be said.
StandardInput standard_input_of(const CommandLine& line, const NodeFacts& facts) {
    if (line.tty_rank || line.detach) return {};
    const bool is_said = line.origins.contains("--stdin") || line.standard_input.all;
    return is_said || facts.stdin_is_terminal ? line.standard_input : StandardInput{.rank = 0};
}

// What --local-addr stands for.
std::vector<std::string> own_addresses_of(const CommandLine& line, const NodeFacts& facts) {
    if (!facts.local) return {};
    if (const auto* why = std::get_if<std::string>(&*facts.local))
        throw UsageError(
            fmt::format("--local-addr {}: cannot be resolved on this machine: {}", line.local_addr, *why));
    const auto& resolved = std::get<std::vector<std::string>>(*facts.local);
    if (!has_own_address(resolved, facts.addresses))
        throw UsageError(fmt::format("--local-addr {}: no address of this machine", line.local_addr));
    return resolved;
}

// With c10d the machine whose address the endpoint is, if the user does not say who.
Hosting hosting_of(const CommandLine& line, const NodeFacts& facts) {
    if (line.rdzv_backend != RdzvBackend::c10d || line.hosting == Hosting::yes) return line.hosting;
    if (line.rdzv_conf.is_host) return *line.rdzv_conf.is_host ? Hosting::yes : Hosting::no;
    const auto* resolved = facts.master ? std::get_if<std::vector<std::string>>(&*facts.master) : nullptr;
    const bool is_here = resolved != nullptr && has_own_address(*resolved, facts.addresses);
    return is_here ? Hosting::if_first : Hosting::no;
}

// Where nodes are numbered by whoever hosts, and the user has not numbered this one.
HostList host_list_of(const CommandLine& line, const NodeFacts& facts) {
    const bool is_asked = line.nnodes > 1 && line.node_rank == kUnnumbered;
    return is_asked ? find_host_list(facts.environment, facts.host_name) : HostList{};
}

// Another job without an id could be taken for this one.
int c10d_ports_of(const CommandLine& line) {
    const bool is_asked = line.master_port.has_value() || line.rdzv_backend != RdzvBackend::c10d;
    return is_asked || line.nnodes == 1 || line.run_id == kNoRunId ? 1 : kC10dPorts;
}

ListenPlan listen_plan_of(const CommandLine& line, Hosting hosting, const NodeFacts& facts) {
    // Any agent may be elected.
    if (line.etcd) return {.any = true};
    if (!facts.master || hosting == Hosting::no) return {.any = line.listen_any};
    return value_or_throw<UsageError>(plan_listening({.nnodes = line.nnodes,
                                                      .any = line.listen_any,
                                                      .master_addr = *line.master_addr,
                                                      .resolved = *facts.master,
                                                      .own = facts.addresses}));
}

// Where something is to happen before the job's end, one has to be known.
std::optional<std::int64_t> scheduler_end_of(const CommandLine& line, const NodeFacts& facts) {
    if (!line.times.warn_before) return std::nullopt;
    const std::string text = find(facts.environment, kSchedulerEnd).value_or("");
    const auto end = parse_scheduler_end(text);
    if (end || (text.empty() && line.times.limit)) return end;
    const std::string why =
        text.empty()
            ? fmt::format("no limit is known; give --time-limit, or run where Slurm sets {}", kSchedulerEnd)
            : fmt::format("{} is '{}', no time in seconds since 1970", kSchedulerEnd, text);
    throw UsageError(fmt::format("--warn-before {}: {}", line.times.warn_text, why));
}

// Tried before anything starts: a failure at night is too late to hear of a typing error.
std::string on_failure_of(const CommandLine& line, const NodeFacts& facts) {
    if (!line.on_failure.empty() && facts.on_failure.empty())
        throw UsageError(fmt::format("--on-failure {}: no such file, or not executable", line.on_failure));
    return facts.on_failure;
}

// On more nodes a local rank may be that of another node with more workers, and the number of all workers is
// known when the round begins (RoundWorkers).
void check_ranks(const LaunchOptions& options) {
    if (options.nnodes > 1) return;
    auto wrong = rank_beyond_job(options, static_cast<int>(options.workers.size()));
    if (!wrong) wrong = local_rank_beyond_node(options);
    if (wrong) throw UsageError(*wrong);
}

// By OpenSSL's own variable, where the user names nobody.
void trust_as_told(LaunchOptions& options, const NodeFacts& facts) {
    if (!options.etcd || !options.etcd->tls || options.etcd->tls->ca.is_given()) return;
    options.etcd->tls->ca = {kTrustedFile, find(facts.environment, kTrustedFile).value_or("")};
}

// A random UUID, as torchrun's.
std::string fresh_id() {
    std::array<unsigned char, 16> random{};
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
        fail_errno(errno, "cannot get random bytes for the job's id (getrandom)");
    random[6] = static_cast<unsigned char>((random[6] & 0x0f) | 0x40);
    random[8] = static_cast<unsigned char>((random[8] & 0x3f) | 0x80);
    std::string id;
    for (std::size_t i = 0; i < random.size(); ++i)
        id += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", random[i]);
    return id;
}

bool is_ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

NodeFacts find_node_facts(const CommandLine& line, const std::string& called) {
    NodeFacts facts;
    facts.start = std::chrono::steady_clock::now();
    facts.environment = current_environment();
    facts.host_name = host_name();
    facts.devices = find_devices(find(facts.environment, "CUDA_VISIBLE_DEVICES"));
    facts.usable_cpus = usable_cpus(count_affinity_cpus(), find_cpu_quota());
    const auto path = find(facts.environment, "PATH");
    if (line.like_torchrun) facts.venv_python = venv_python_beside(find_executable(called, path));
    facts.python = find_executable(python_name(python_exec_of(facts)), path);
    if (!line.on_failure.empty()) facts.on_failure = find_executable(line.on_failure, path);
    const std::string venv = find(facts.environment, "VIRTUAL_ENV").value_or("");
    facts.other_venv = !venv.empty() && !facts.python.empty() && !is_of_venv(facts.python, venv);
    facts.hangup_ignored = is_ignored(SIGHUP);
    facts.terminal_stop_ignored = is_ignored(SIGTSTP);
    facts.fresh_id = fresh_id();
    facts.stdin_is_terminal = ::isatty(STDIN_FILENO) != 0;
    if (!line.program.empty()) {
        const std::string& name = line.program.front();
        facts.program_is_pythons = is_for_python(name, find_executable(name, path));
    }
    const bool may_host = line.rdzv_backend != RdzvBackend::fixed || line.node_rank == 0;
    const bool asks_for_master = line.master_addr && may_host;
    if (asks_for_master || !line.local_addr.empty()) facts.addresses = local_addresses();
    if (!line.local_addr.empty()) facts.local = resolve_host(line.local_addr);
    if (asks_for_master) facts.master = resolve_host(*line.master_addr);
    return facts;
}

LaunchOptions resolve_launch(const CommandLine& line, const NodeFacts& facts) {
    if (const auto peers = find_peer_tasks(facts.environment); peers && !line.nodes_said)
        throw UsageError(advice(*peers));
    const std::vector<std::string> own_addresses = own_addresses_of(line, facts);
    const int workers = local_world_size(line, facts);
    const Program program = program_of(line, facts);
    const auto bindings = bindings_of(line, facts, program, workers);

    LaunchOptions options = line;
    if (line.standalone) options.run_id = facts.fresh_id;
    options.standard_input = standard_input_of(line, facts);
    trust_as_told(options, facts);
    options.master.host = line.master_addr.value_or(line.etcd ? "" : "127.0.0.1");
    const std::uint16_t default_port =
        line.rdzv_backend == RdzvBackend::c10d ? kDefaultC10dPort : kDefaultMasterPort;
    options.master.port = line.master_port.value_or(line.nnodes == 1 || line.etcd ? 0 : default_port);
    options.master_ports = c10d_ports_of(line);
    options.host_list = host_list_of(line, facts);
    options.hosting = hosting_of(line, facts);
    options.listen = listen_plan_of(line, options.hosting, facts);
    const bool is_module = line.module && !line.run_path;
    if (is_module) options.command.emplace_back("-m");
    options.command.insert(options.command.end(), line.program.begin(), line.program.end());
    options.own_error_file = find(facts.environment, "TORCHELASTIC_ERROR_FILE").value_or("");
    options.entry_name = program.entry_name;
    if (program.is_python) options.interpreter = interpreter_text(facts);
    options.start = facts.start;
    options.on_failure = on_failure_of(line, facts);
    options.times.scheduler_end_unix_ms = scheduler_end_of(line, facts);
    if (program.is_python && !is_module) options.python_script = program.entry_name;
    options.environment = facts.environment;
    for (const std::string& name : line.own_variables) options.environment.erase(name);
    if (!line.networks.empty()) options.environment["DDPRUN_NET"] = line.networks;
    options.environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = line.signals_text;
    // Gloo and NCCL of several nodes go by an interface.
    for (const std::string& address : own_addresses) {
        if (line.nnodes > 1) name_carrier_interface(options.environment, address, facts.addresses);
    }
    options.hangup_ignored = facts.hangup_ignored;
    options.terminal_stop_ignored = facts.terminal_stop_ignored;
    for (int local_rank = 0; local_rank < workers; ++local_rank) {
        const DeviceBinding& binding = bindings.at(static_cast<std::size_t>(local_rank));
        options.workers.push_back(
            {.argv = argv_for_worker(program, local_rank),
             .additions = additions_of(line, facts, program, binding, local_rank, workers)});
    }
    check_ranks(options);
    return options;
}

}  // namespace ddprun
