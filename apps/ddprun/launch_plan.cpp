#include "apps/ddprun/launch_plan.hpp"

#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "apps/cli/option_values.hpp"
#include "launcher/agent/rank_limits.hpp"
#include "launcher/plan/node_resources.hpp"
#include "launcher/plan/program.hpp"
#include "launcher/process/exec_search.hpp"
#include "rendezvous/worker/peer_tasks.hpp"

namespace ddprun {
namespace {

constexpr std::uint16_t kDefaultMasterPort = 29500;  // torchrun's

std::optional<std::string> find(const Environment& environment, const std::string& name) {
    auto entry = environment.find(name);
    if (entry == environment.end()) return std::nullopt;
    return entry->second;
}

// The file that execvp would take; empty: none.
std::string find_executable(const std::string& name, const std::optional<std::string>& path) {
    for (const std::string& candidate : exec_candidates(name, path)) {
        std::error_code ignored;
        if (std::filesystem::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0)
            return std::filesystem::absolute(candidate, ignored).lexically_normal().string();
    }
    return {};
}

// A virtual environment's python3 is a link to another one, so the folder it lies in decides.
bool is_of_venv(const std::string& python, const std::string& venv) {
    std::error_code ignored;
    const auto prefix = std::filesystem::path(python).parent_path().parent_path();
    return std::filesystem::equivalent(prefix, venv, ignored);
}

std::string interpreter_text(const NodeFacts& facts) {
    if (facts.python.empty() || !facts.other_venv) return facts.python;
    const std::string venv = find(facts.environment, "VIRTUAL_ENV").value_or("");
    return facts.python + ", but VIRTUAL_ENV is " + venv + "; PYTHON_EXEC=" + venv +
           "/bin/python3 takes that one";
}

int local_world_size(const CommandLine& line, const NodeFacts& facts) {
    if (line.nproc_per_node == "gpu" && facts.devices.count == 0) {
        throw UsageError("--nproc-per-node gpu: this node has no GPU (" + facts.devices.source + ")");
    }
    if (line.nproc_per_node == "gpu") return facts.devices.count;
    if (line.nproc_per_node == "cpu") return facts.usable_cpus;
    if (line.nproc_per_node == "auto")
        return facts.devices.count > 0 ? facts.devices.count : facts.usable_cpus;
    return std::stoi(line.nproc_per_node);
}

Program program_of(const CommandLine& line, const NodeFacts& facts) {
    ProgramRequest request{.program = line.program.front(),
                           .arguments = {line.program.begin() + 1, line.program.end()},
                           .module = line.module,
                           .no_python = line.no_python,
                           .python = line.python,
                           .python_exec = find(facts.environment, "PYTHON_EXEC")};
    auto chosen = choose_program(request);
    if (const auto* contradiction = std::get_if<std::string>(&chosen)) throw UsageError(*contradiction);
    return std::get<Program>(chosen);
}

std::vector<DeviceBinding> bindings_of(const CommandLine& line, const NodeFacts& facts,
                                       const Program& program, int workers) {
    auto bound = bind_devices({.bind = line.gpu_bind,
                               .share_gpus = line.share_gpus,
                               .is_python = program.is_python,
                               .local_workers = workers,
                               .workers_source = "--nproc-per-node " + line.nproc_per_node,
                               .devices = facts.devices});
    if (const auto* refusal = std::get_if<std::string>(&bound)) throw UsageError(*refusal);
    return std::get<std::vector<DeviceBinding>>(bound);
}

ListenPlan listen_plan_of(const CommandLine& line, const NodeFacts& facts) {
    if (!facts.master) return {.any = line.listen_any};
    auto plan = plan_listening({.nnodes = line.nnodes,
                                .any = line.listen_any,
                                .master_addr = *line.master_addr,
                                .resolved = *facts.master,
                                .own = facts.addresses});
    if (const auto* refusal = std::get_if<std::string>(&plan)) throw UsageError(*refusal);
    return std::get<ListenPlan>(plan);
}

// On more nodes a local rank may be that of another node with more workers, and the number of all workers is
// known when the round begins (RoundWorkers).
void check_ranks(const LaunchOptions& options) {
    if (options.nnodes > 1) return;
    std::string wrong = rank_beyond_job(options, static_cast<int>(options.workers.size()));
    if (wrong.empty()) wrong = local_rank_beyond_node(options);
    if (!wrong.empty()) throw UsageError(wrong);
}

bool is_ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

NodeFacts find_node_facts(const CommandLine& line) {
    NodeFacts facts;
    facts.environment = current_environment();
    facts.devices = find_devices(find(facts.environment, "CUDA_VISIBLE_DEVICES"));
    facts.usable_cpus = usable_cpus(count_affinity_cpus(), find_cpu_quota());
    facts.python =
        find_executable(python_name(find(facts.environment, "PYTHON_EXEC")), find(facts.environment, "PATH"));
    const std::string venv = find(facts.environment, "VIRTUAL_ENV").value_or("");
    facts.other_venv = !venv.empty() && !facts.python.empty() && !is_of_venv(facts.python, venv);
    facts.hangup_ignored = is_ignored(SIGHUP);
    facts.terminal_stop_ignored = is_ignored(SIGTSTP);
    if (line.node_rank != 0 || !line.master_addr) return facts;
    facts.addresses = local_addresses();
    facts.master = resolve_host(*line.master_addr);
    return facts;
}

LaunchOptions resolve_launch(const CommandLine& line, const NodeFacts& facts) {
    if (const auto peers = find_peer_tasks(facts.environment); peers && !line.nodes_said)
        throw UsageError(advice(*peers));
    const int workers = local_world_size(line, facts);
    const Program program = program_of(line, facts);
    const auto bindings = bindings_of(line, facts, program, workers);

    LaunchOptions options = line;
    options.master.host = line.master_addr.value_or("127.0.0.1");
    options.master.port = line.master_port.value_or(line.nnodes == 1 ? 0 : kDefaultMasterPort);
    options.listen = listen_plan_of(line, facts);
    if (line.module) options.command.emplace_back("-m");
    options.command.insert(options.command.end(), line.program.begin(), line.program.end());
    options.own_error_file = find(facts.environment, "TORCHELASTIC_ERROR_FILE").value_or("");
    options.entry_name = program.entry_name;
    if (program.is_python) options.interpreter = interpreter_text(facts);
    options.environment = facts.environment;
    for (const std::string& name : line.own_variables) options.environment.erase(name);
    if (!line.networks.empty()) options.environment["DDPRUN_NET"] = line.networks;
    options.hangup_ignored = facts.hangup_ignored;
    options.terminal_stop_ignored = facts.terminal_stop_ignored;
    for (int local_rank = 0; local_rank < workers; ++local_rank) {
        const DeviceBinding& binding = bindings.at(static_cast<std::size_t>(local_rank));
        WorkerPlan plan{.argv = argv_for_worker(program, local_rank), .additions = {}};
        if (binding.cuda_visible_devices)
            plan.additions["CUDA_VISIBLE_DEVICES"] = *binding.cuda_visible_devices;
        if (binding.ddprun_device) plan.additions["DDPRUN_DEVICE"] = *binding.ddprun_device;
        // A crash's place in the program then stands in its last lines.
        if (program.is_python && !facts.environment.contains("PYTHONFAULTHANDLER"))
            plan.additions["PYTHONFAULTHANDLER"] = "1";
        if (!facts.environment.contains("OMP_NUM_THREADS")) {
            plan.additions["OMP_NUM_THREADS"] = std::to_string(omp_threads(facts.usable_cpus, workers));
        }
        options.workers.push_back(std::move(plan));
    }
    check_ranks(options);
    return options;
}

}  // namespace ddprun
