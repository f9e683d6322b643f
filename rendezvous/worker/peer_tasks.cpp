#include "rendezvous/worker/peer_tasks.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "rendezvous/system/whole_number.hpp"

namespace ddprun {
namespace {

// The names under which one process launcher tells its tasks about each other.
struct TaskNames {
    std::string_view launcher;
    std::string_view size;
    std::string_view rank;
    std::string_view local_size;
    std::string_view nodes;
    std::string_view node_rank;
    std::string_view one_per_node;
    std::string_view sign = {};  // must be there, too
};

// clang-format off
constexpr TaskNames kLaunchers[] = {
    {"a Flux job", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", {}, "FLUX_JOB_NNODES", "FLUX_TASK_RANK",
     "flux run --tasks-per-node=1"},
    {"an Open MPI job", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", {},
     "OMPI_COMM_WORLD_RANK", "mpirun --map-by ppr:1:node"},
    {"an MVAPICH job", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", {},
     "MV2_COMM_WORLD_RANK", "mpiexec -ppn 1"},
    {"a jsrun job", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_SIZE", {},
     "JSM_NAMESPACE_RANK", "jsrun --rs_per_host=1 --tasks_per_rs=1"},
    {"a horovodrun job", "HOROVOD_SIZE", "HOROVOD_RANK", "HOROVOD_LOCAL_SIZE", {}, "HOROVOD_RANK",
     "horovodrun -H HOST:1,…"},
    {"a PALS job", "PMI_SIZE", "PALS_RANKID", "PMI_LOCAL_SIZE", {}, "PALS_NODEID", "mpiexec --ppn 1",
     "PALS_RANKID"},
    {"an MPI job", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", {}, "PMI_RANK", "mpiexec -ppn 1"},
    {"a Slurm step", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", {}, "SLURM_STEP_NUM_NODES", "SLURM_NODEID",
     "srun --ntasks-per-node=1"},
};
// clang-format on

// A whole number of at least `lowest`.
std::optional<int> number(const Environment& environment, std::string_view name, int lowest) {
    const std::string* text = find_variable(environment, name);
    return text != nullptr ? whole_number<int>(*text, lowest) : std::nullopt;
}

std::optional<int> nodes_of(const Environment& environment, const TaskNames& names, int tasks) {
    if (const auto told = number(environment, names.nodes, 1)) return std::min(*told, tasks);
    const auto local = number(environment, names.local_size, 1);
    if (!local || tasks % *local != 0) return std::nullopt;
    return tasks / *local;
}

}  // namespace

std::optional<PeerTasks> find_peer_tasks(const Environment& environment) {
    // DDPRUN_RUN_ID beside it, for where a program has taken torchrun's name away from its children.
    if (environment.contains("TORCHELASTIC_RUN_ID") || environment.contains("DDPRUN_RUN_ID"))
        return std::nullopt;
    for (const TaskNames& names : kLaunchers) {
        if (!names.sign.empty() && find_variable(environment, names.sign) == nullptr) continue;
        const auto size = number(environment, names.size, 1);
        const auto nodes = number(environment, names.nodes, 1);
        if (!size && !nodes) continue;
        const int tasks = size ? *size : *nodes;
        if (tasks < 2) return std::nullopt;
        auto task = number(environment, names.rank, 0);
        if (task && *task >= tasks) task.reset();
        return PeerTasks{.launcher = std::string(names.launcher),
                         .evidence = fmt::format("{}={}", size ? names.size : names.nodes, tasks),
                         .tasks = tasks,
                         .task = task,
                         .nodes = nodes_of(environment, names, tasks),
                         .node_rank = std::string(names.node_rank),
                         .one_per_node = std::string(names.one_per_node)};
    }
    return std::nullopt;
}

std::string advice(const PeerTasks& peers) {
    const int nodes = peers.nodes.value_or(peers.tasks);
    std::string line = fmt::format("this is {} of {} ({}), and each would run a job of its own: ",
                                   peers.task ? fmt::format("task {} of {}", *peers.task, peers.tasks)
                                              : fmt::format("one of {} tasks", peers.tasks),
                                   peers.launcher, peers.evidence);
    if (nodes == 1) {
        line += fmt::format("start one ddprun with --nproc-per-node={0} in place of {0} tasks", peers.tasks);
    } else {
        if (nodes < peers.tasks)
            line += fmt::format("start one task on each node ({}) and ", peers.one_per_node);
        line += fmt::format(
            "give --nnodes={0} --node-rank=${1} --master-addr=HOST (within bash -c '…', so that "
            "each task fills in its own ${1})",
            nodes, peers.node_rank);
    }
    return line + ", or --standalone for a job of its own in each task";
}

}  // namespace ddprun
