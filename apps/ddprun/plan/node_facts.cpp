#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "apps/ddprun/plan/node_facts.hpp"
#include "apps/ddprun/plan/own_python.hpp"
#include "launcher/cluster/cluster_table.hpp"
#include "launcher/features/failure_judge.hpp"
#include "launcher/plan/cpu_list.hpp"
#include "launcher/plan/gpus.hpp"
#include "launcher/plan/nics.hpp"
#include "launcher/plan/program_words.hpp"
#include "launcher/plan/topology.hpp"
#include "launcher/process/child_exec.hpp"
#include "launcher/told_file.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/net/resolver.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/resource_limits.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace app {
namespace {

// A virtual environment's python3 is a link to another one, so the folder it lies in decides.
bool is_of_venv(const std::string& python, const std::string& venv) {
    std::error_code ignored;
    const auto prefix = std::filesystem::path(python).parent_path().parent_path();
    return std::filesystem::equivalent(prefix, venv, ignored);
}

NodeHardware find_hardware(const JobPlan& job, const Environment& environment) {
    NodeHardware hardware;
    const CpuList cpus = affinity_cpus();
    hardware.devices = find_devices(environment, find_gpus());
    hardware.usable_cpus = usable_cpus(static_cast<int>(cpus.size()), find_cpu_quota());
    if (hardware.devices.count > 0) hardware.nics = find_nics();
    if (job.cpu_bind != CpuBind::none) hardware.memory_refusal = memory_policy_refusal();
    const bool is_shown =
        job.dry_run || job.explain || job.verbosity == Verbosity::verbose || !job.log_file.empty();
    if (is_shown || job.cpu_bind != CpuBind::none) hardware.topology = read_topology(cpus);
    return hardware;
}

std::set<std::string> programs_named(const JobPlan& job) {
    std::set<std::string> names;
    if (!job.program.empty()) names.insert(job.program.front());
    for (const NodeProgram& further : job.further_programs) names.insert(further.words.front());
    for (const RankCommand& one : job.rank_programs) names.insert(one.words.front());
    return names;
}

// They are only for people who have mistyped one.
std::vector<std::string> names_beside(const std::filesystem::path& program) {
    constexpr std::size_t kMostNames = 1000;
    std::vector<std::string> names;
    std::error_code unknown;
    std::filesystem::directory_iterator entry(program.has_parent_path() ? program.parent_path() : ".",
                                              unknown);
    for (; entry != std::filesystem::directory_iterator() && names.size() < kMostNames;
         entry.increment(unknown))
        names.push_back(entry->path().filename().string());
    return names;
}

// Says why Python cannot read the script that the user's own words give to it.
std::optional<ProgramFault> script_fault(const std::vector<std::string>& words) {
    if (!runs_python(words)) return std::nullopt;
    const auto script = std::find_if(words.begin() + 1, words.end(),
                                     [](const std::string& word) { return !word.starts_with('-'); });
    const bool is_script =
        script != words.end() && script->ends_with(".py") && script->find(' ') == std::string::npos;
    auto fault = is_script ? reading_fault(*script) : std::nullopt;
    if (fault) fault->text = fmt::format("{}: {}", *script, fault->text);
    return fault;
}

std::string find_judge(const JobPlan& job, const std::optional<std::string>& path) {
    const std::string& name = job.features.of<FailureJudgeOptions>().program;
    if (name.empty()) return {};
    std::string found = find_executable(name, path);
    // Tried before anything starts: a failure at night is too late to hear of a typing error.
    if (found.empty()) throw UsageError(fmt::format("--on-failure {}: {}", name, execution_fault(name).text));
    return found;
}

// Says why no Python is found by this name; a folder is one of a virtual environment, mostly.
ProgramFault python_fault(const std::string& name) {
    ProgramFault fault = execution_fault(name);
    const std::string within = name + "/bin/python3";
    if (!find_executable(within, std::nullopt).empty())
        fault.text += fmt::format("; did you mean {}?", within);
    return fault;
}

// Compares the Python that the user's own words name with the launcher's, for those whom it fails.
void add_named_python(const JobPlan& job, NodeFacts& facts) {
    const std::string name = job.program.empty() ? "" : job.program.front();
    if (name.empty() || name.find('/') != name.npos) return;
    const auto path = facts.variable("PATH");
    const bool is_there = !find_executable(name, path).empty();
    // What a wrapper starts may be in a container.
    if (is_there && (!is_python(name) || !job.wraps.empty())) return;
    std::string own = facts.own_python.empty() ? own_python() : facts.own_python;
    if (own.empty() && job.starter) own = job.starter->python;
    (is_there ? facts.python_of_words : facts.python_instead) =
        is_there ? python_of_words(name, own, path) : python_to_write(own, path);
}

// Says whether choose_program() may put Python in front of a program.
bool may_run_by_python(const JobPlan& job, const NodeFacts& facts) {
    if (job.run_path || job.module || job.python) return true;
    return std::any_of(facts.files.begin(), facts.files.end(), [](const auto& entry) {
        return entry.first.ends_with(".py") || entry.second.is_for_python;
    });
}

RankOrder find_rank_order(const JobPlan& job, const Environment& environment, const std::string& host) {
    const std::string& by = job.rank_order_by;
    if (by == "node") return {};
    if (by == "topology") return order_by_topology(environment);
    const std::string option = "--rank-order " + by;
    const auto text = job.files.read(by, kMaxRankOrderFile);
    if (!text)
        throw UsageError(fmt::format("{}: neither node nor topology, and no file that can be read: {}",
                                     option, why_untold(text.error(), kMaxRankOrderFile)));
    auto order = order_by_file(edited_text(*text), host);
    if (const auto* wrong = std::get_if<std::string>(&order))
        throw UsageError(fmt::format("{}: {}", option, *wrong));
    auto found = std::get<RankOrder>(std::move(order));
    if (!found.complaint.empty()) found.complaint = fmt::format("{}: {}", option, found.complaint);
    return found;
}

// Makes a random UUID, as torchrun's is.
std::string fresh_id() {
    auto random = random_bytes<16>("the job's id");
    random[6] = static_cast<std::uint8_t>((random[6] & 0x0f) | 0x40);
    random[8] = static_cast<std::uint8_t>((random[8] & 0x3f) | 0x80);
    std::string id = hex_text(random);
    for (const std::size_t place : {20U, 16U, 12U, 8U}) id.insert(place, 1, '-');
    return id;
}

}  // namespace

bool is_ignored(int signal) {
    struct sigaction action {};
    return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

std::optional<std::string> NodeFacts::variable(const std::string& name) const {
    const std::string* value = find_variable(environment, name);
    return value != nullptr ? std::optional(*value) : std::nullopt;
}

std::optional<std::string> python_exec_of(const NodeFacts& facts) {
    const auto said = facts.variable("PYTHON_EXEC");
    const bool is_said = said && !said->empty();
    return is_said || facts.own_python.empty() ? said : facts.own_python;
}

NodeFacts find_node_facts(const JobPlan& job) {
    NodeFacts facts;
    facts.start = std::chrono::steady_clock::now();
    facts.start_unix_s = unix_time_now_ms() / 1000;
    facts.environment = current_environment();
    for (const auto& [name, value] : job.variables) facts.environment[name] = value;
    facts.host_name = host_name();
    // The file is read on one node, too, as it may be wrong, but there is nothing to be ordered.
    facts.rank_order = find_rank_order(job, facts.environment, facts.host_name);
    if (job.nnodes == 1) facts.rank_order = {};
    facts.hardware = find_hardware(job, facts.environment);
    const auto path = facts.variable("PATH");
    facts.on_failure = find_judge(job, path);
    facts.hangup_ignored = is_ignored(SIGHUP);
    facts.terminal_stop_ignored = is_ignored(SIGTSTP);
    facts.fresh_id = fresh_id();
    facts.stdin_is_terminal = ::isatty(STDIN_FILENO) != 0;
    for (const std::string& name : programs_named(job)) {
        ProgramFile& file = facts.files[name] = look_at_program(name, find_executable(name, path));
        if (file.fault && !file.fault->runner.empty() && find_executable(file.fault->runner, path).empty())
            file.fault->text += fmt::format(", but no {} is on PATH", file.fault->runner);
    }
    if (job.read_program && descriptor_named(job.program.front()))
        facts.files[job.program.front()] = {.is_for_python = true};
    if (const auto fault = script_fault(job.program)) facts.files[job.program.front()].fault = fault;
    if (may_run_by_python(job, facts)) {
        facts.own_python = own_python();
        const bool is_said = !facts.variable("PYTHON_EXEC").value_or("").empty();
        if (facts.own_python.empty() && !is_said) facts.other_python = lost_python();
        if (facts.own_python.empty() && job.starter) facts.own_python = job.starter->python;
        // Who calls torchrun expects no other one.
        if (!is_said && !facts.own_python.empty() && !job.like_torchrun && facts.other_python.empty())
            facts.other_python = other_python_on_path(facts.own_python, facts.environment);
        const std::string python = python_name(python_exec_of(facts));
        facts.python = find_executable(python, path);
        if (facts.python.empty()) facts.python_fault = python_fault(python);
        const std::string venv = facts.variable("VIRTUAL_ENV").value_or("");
        facts.other_venv = !venv.empty() && !facts.python.empty() && !is_of_venv(facts.python, venv);
    }
    if (!job.module && !job.run_path && !job.python) add_named_python(job, facts);
    // What a wrapper starts may be in a container.
    for (auto& [name, file] : facts.files) {
        if (!job.wraps.empty()) file.unreadable = file.fault = std::nullopt;
    }
    for (const Wrap& wrap : job.wraps) {
        const std::string& name = wrap.words.front();
        if (name.find('%') == name.npos)
            facts.files[name] = look_at_program(name, find_executable(name, path));
    }
    const auto first = job.program.empty() ? facts.files.end() : facts.files.find(job.program.front());
    if (first != facts.files.end() && first->second.fault) facts.neighbours = names_beside(first->first);
    const bool may_host = job.rdzv_backend != RdzvBackend::fixed || job.node_rank == 0;
    const bool asks_for_master = job.master_addr && may_host;
    if (asks_for_master || !job.local_addr.empty() || !job.networks.empty())
        facts.addresses = local_addresses();
    using Milliseconds = std::chrono::milliseconds;
    // The nodes meet in the rest of the time, whether the name is known or not.
    const auto patience = std::min<Milliseconds>(job.join_timeout / 2, kResolverTimeout);
    const auto asked = std::chrono::steady_clock::now();
    if (!job.local_addr.empty()) facts.local = resolve_host(job.local_addr, patience);
    if (asks_for_master) facts.master = resolve_host(*job.master_addr, patience);
    facts.join_spent = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - asked);
    return facts;
}

ClusterView find_cluster_view(Environment environment) {
    // A file of variables may have been edited on Windows.
    for (auto& [name, value] : environment) value.erase(value.find_last_not_of('\r') + 1);
    ClusterView view{.environment = std::move(environment), .host_name = host_name()};
    for (const std::string& path : cluster_files(view.environment)) {
        if (auto text = read_small_file(path, kMaxClusterFile))
            view.files[path] = edited_text(*std::move(text));
    }
    // They are compared with what a family tells; most machines are in none.
    if (derive_cluster(view, {}).family.empty()) return view;
    for (const LocalAddress& own : local_addresses()) {
        if (!own.is_loopback) view.addresses.push_back(own.address);
    }
    return view;
}

}  // namespace app
}  // namespace ddprun
