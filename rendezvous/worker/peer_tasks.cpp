#include "rendezvous/worker/peer_tasks.hpp"

#include <algorithm>
#include <string_view>

#include "rendezvous/system/whole_number.hpp"

namespace ddprun {
namespace {

// The names under which one process launcher tells its tasks about each other.
struct TaskNames {
    std::string_view launcher;
    std::string_view sign;  // must be there, too
    std::string_view size;
    std::string_view rank;
    std::string_view local_size;
    std::string_view nodes;
    std::string_view node_rank;
    std::string_view one_per_node;
};

constexpr TaskNames kLaunchers[] = {
    {.launcher = "a Flux job",
     .size = "FLUX_JOB_SIZE",
     .rank = "FLUX_TASK_RANK",
     .nodes = "FLUX_JOB_NNODES",
     .node_rank = "FLUX_TASK_RANK",
     .one_per_node = "flux run --tasks-per-node=1"},
    {.launcher = "an Open MPI job",
     .size = "OMPI_COMM_WORLD_SIZE",
     .rank = "OMPI_COMM_WORLD_RANK",
     .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .node_rank = "OMPI_COMM_WORLD_RANK",
     .one_per_node = "mpirun --map-by ppr:1:node"},
    {.launcher = "an MVAPICH job",
     .size = "MV2_COMM_WORLD_SIZE",
     .rank = "MV2_COMM_WORLD_RANK",
     .local_size = "MV2_COMM_WORLD_LOCAL_SIZE",
     .node_rank = "MV2_COMM_WORLD_RANK",
     .one_per_node = "mpiexec -ppn 1"},
    {.launcher = "a jsrun job",
     .size = "JSM_NAMESPACE_SIZE",
     .rank = "JSM_NAMESPACE_RANK",
     .local_size = "JSM_NAMESPACE_LOCAL_SIZE",
     .node_rank = "JSM_NAMESPACE_RANK",
     .one_per_node = "jsrun --rs_per_host=1 --tasks_per_rs=1"},
    {.launcher = "a horovodrun job",
     .size = "HOROVOD_SIZE",
     .rank = "HOROVOD_RANK",
     .local_size = "HOROVOD_LOCAL_SIZE",
     .node_rank = "HOROVOD_RANK",
     .one_per_node = "horovodrun -H HOST:1,…"},
    {.launcher = "a PALS job",
     .sign = "PALS_RANKID",
     .size = "PMI_SIZE",
     .rank = "PALS_RANKID",
     .local_size = "PMI_LOCAL_SIZE",
     .node_rank = "PALS_NODEID",
     .one_per_node = "mpiexec --ppn 1"},
    {.launcher = "an MPI job",
     .size = "PMI_SIZE",
     .rank = "PMI_RANK",
     .local_size = "MPI_LOCALNRANKS",
     .node_rank = "PMI_RANK",
     .one_per_node = "mpiexec -ppn 1"},
    {.launcher = "a Slurm step",
     .size = "SLURM_STEP_NUM_TASKS",
     .rank = "SLURM_PROCID",
     .nodes = "SLURM_STEP_NUM_NODES",
     .node_rank = "SLURM_NODEID",
     .one_per_node = "srun --ntasks-per-node=1"},
};

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
        PeerTasks peers;
        peers.launcher = names.launcher;
        peers.evidence = std::string(size ? names.size : names.nodes) + "=" + std::to_string(tasks);
        peers.tasks = tasks;
        peers.task = number(environment, names.rank, 0);
        if (peers.task && *peers.task >= tasks) peers.task.reset();
        peers.nodes = nodes_of(environment, names, tasks);
        peers.node_rank = names.node_rank;
        peers.one_per_node = names.one_per_node;
        return peers;
    }
    return std::nullopt;
}

std::string advice(const PeerTasks& peers) {
    const std::string tasks = std::to_string(peers.tasks);
    const int nodes = peers.nodes.value_or(peers.tasks);
    std::string line =
        "this is " +
        (peers.task ? "task " + std::to_string(*peers.task) + " of " + tasks : "one of " + tasks + " tasks") +
        " of " + peers.launcher + " (" + peers.evidence + "), and each would run a job of its own: ";
    if (nodes == 1) {
        line += "start one ddprun with --nproc-per-node=" + tasks + " in place of " + tasks + " tasks";
    } else {
        if (nodes < peers.tasks) line += "start one task on each node (" + peers.one_per_node + ") and ";
        line += "give --nnodes=" + std::to_string(nodes) + " --node-rank=$" + peers.node_rank +
                " --master-addr=HOST (within bash -c '…', so that each task fills in its own $" +
                peers.node_rank + ")";
    }
    return line + ", or --standalone for a job of its own in each task";
}

}  // namespace ddprun
