#include "apps/ddprun/plan/adapted_task.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "apps/ddprun/plan/launch_plan.hpp"
#include "launcher/process/descriptors.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

[[noreturn]] void refuse_task(const std::string& family, const std::string& what) {
    throw UsageError(fmt::format("--adapt: {} does not tell {}", family, what));
}

// Tasks go to the nodes in blocks, unless their local numbers say otherwise; then nobody knows.
std::optional<int> node_of_task(const ClusterTable& table, int rank, int local_rank, int local_size) {
    if (const auto number = chosen_number(table, Fact::node_rank)) return number;
    if (rank % local_size == local_rank) return rank / local_size;
    return std::nullopt;
}

// Returns the address of task 0; nothing is stronger than what the user has set by hand.
std::string meeting_place(const JobPlan& job) {
    const Tasks& tasks = *job.table.tasks;
    const Claim* place = chosen(job.table, Fact::master_addr);
    const bool is_said = place != nullptr && place->belief <= Belief::config_file;
    if (!is_said && (tasks.nodes == 1 || tasks.local_count == tasks.count)) return kLoopback;
    if (place != nullptr) return place->value;
    const auto derived = job.table.facts.find(Fact::master_addr);
    if (derived == job.table.facts.end() || derived->second.rivals.empty())
        refuse_task(job.table.family, "where its tasks meet: give --master-addr HOST, the node of task 0");
    return derived->second.rivals.front().value;
}

std::string meeting_port(const JobPlan& job) {
    if (const auto told = derived_port(job.table)) return std::to_string(*told);
    if (const Claim* said = chosen(job.table, Fact::master_port)) return said->value;
    const Claim* id = chosen(job.table, Fact::job_id);
    return id != nullptr ? std::to_string(port_of_job(id->value, job.port_range.value_or(kDerivedPortRange)))
                         : std::to_string(kDefaultMasterPort);
}

// The plan of the one program, where the launcher's tasks are the workers of the node.
JobPlan adapted_plan(JobPlan job, const Environment& variables) {
    job.nnodes = 1;
    // The program meets the others itself, and waits for a name that is not known yet.
    job.master_addr.reset();
    job.gpu_bind = GpuBind::none;
    // The plan has as many workers as the node, for the arguments that name the local rank.
    job.nproc_per_node = std::stoi(variables.at("LOCAL_WORLD_SIZE"));
    return job;
}

}  // namespace

Environment task_variables(const JobPlan& job) {
    const auto& tasks = job.table.tasks;
    if (!tasks)
        throw UsageError(
            "--adapt: no process launcher like srun or mpirun has started this process as one of its tasks");
    if (!tasks->task) refuse_task(job.table.family, "this task's number");
    const bool is_alone = tasks->count == 1;
    const auto local_size = is_alone ? std::optional(1) : tasks->local_count;
    const auto local_rank = is_alone ? std::optional(0) : tasks->local_task;
    if (!local_size || !local_rank) refuse_task(job.table.family, "which of its node's tasks this is");
    if (*local_rank >= *local_size)
        refuse_task(job.table.family,
                    fmt::format("a local number below {}, but {}", *local_size, *local_rank));
    Environment variables{
        {"RANK", std::to_string(*tasks->task)},      {"WORLD_SIZE", std::to_string(tasks->count)},
        {"LOCAL_RANK", std::to_string(*local_rank)}, {"LOCAL_WORLD_SIZE", std::to_string(*local_size)},
        {"MASTER_ADDR", meeting_place(job)},         {"MASTER_PORT", meeting_port(job)}};
    if (const auto node = node_of_task(job.table, *tasks->task, *local_rank, *local_size))
        variables["GROUP_RANK"] = std::to_string(*node);
    return variables;
}

int local_rank_of(const Environment& variables) { return std::stoi(variables.at("LOCAL_RANK")); }

AdaptedTask find_adapted_task(const JobPlan& job) {
    const Environment variables = task_variables(job);
    const JobPlan alone = adapted_plan(job, variables);
    const NodeFacts facts = find_node_facts(alone);
    const LaunchOptions options = resolve_launch(alone, facts);
    AdaptedTask task{.rank = std::stoi(variables.at("RANK")),
                     .local_rank = local_rank_of(variables),
                     .environment = options.environment,
                     .fault = program_fault(alone, facts),
                     .read_program = alone.read_program};
    task.argv = options.workers.at(static_cast<std::size_t>(task.local_rank)).argv;
    for (const auto& [name, value] : variables) task.environment[name] = value;
    return task;
}

void become_task(const AdaptedTask& task) {
    std::vector<std::string> entries;
    for (const auto& [name, value] : task.environment) entries.push_back(name + "=" + value);
    const auto pointers = [](const std::vector<std::string>& texts) {
        std::vector<char*> all;
        for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
        all.push_back(nullptr);
        return all;
    };
    if (task.read_program) {
        const OwnedDescriptor program = make_text_file("ddprun-program", *task.read_program);
        if (!program || ::dup2(program.get(), STDIN_FILENO) < 0)
            fail_errno(errno, "cannot hand on the program");
    }
    // The launcher's own (see main), which a program does not expect.
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    const std::string& name = task.argv.front();
    ::execvpe(name.c_str(), pointers(task.argv).data(), pointers(entries).data());
    fail_errno(errno, fmt::format("{} cannot be executed", name));
}

}  // namespace app
}  // namespace ddprun
