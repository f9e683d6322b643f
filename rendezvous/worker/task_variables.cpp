#include "rendezvous/worker/task_variables.hpp"

#include <fmt/core.h>

#include <array>
#include <string_view>

#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace base {
namespace {

// The names by which one launcher tells a task its place; empty: it does not tell that.
struct TaskPlaceNames {
    std::string_view rank, size, local_rank, local_size;
    std::string_view ways = {};  // by which its own library takes part, between blanks; empty: MPI's
};
constexpr std::array<TaskPlaceNames, 15> kTaskPlaces{{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"", "OMPI_APP_CTX_NUM_PROCS", "OMPI_COMM_WORLD_NODE_RANK", ""},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
    {"", "SLURM_NPROCS", "", "SLURM_NTASKS_PER_NODE"},
    {"", "SLURM_STEP_NUM_TASKS", "", ""},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PMIX_RANK", "", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"MVP_COMM_WORLD_RANK", "MVP_COMM_WORLD_SIZE", "MVP_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_SIZE"},
    {"PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
    {"ALPS_APP_PE", "", "", ""},
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""},
    {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
     "HOROVOD_GLOO_RENDEZVOUS_ADDR HOROVOD_GLOO_RENDEZVOUS_PORT"},
    {"JAX_PROCESS_ID", "JAX_NUM_PROCESSES", "", "", "JAX_COORDINATOR_ADDRESS JAX_LOCAL_DEVICE_IDS"},
}};

// At a star stands the rest of a name. What mpirun tells its tasks keeps Open MPI from being a process alone.
constexpr std::string_view kMpiWays =
    "PMI_FD PMI_PORT PMI_ID PMI_CONTROL_PORT PALS_APINFO PMIX_* OMPI_MCA_ess* OMPI_MCA_orte_* OMPI_MCA_pmix* "
    "OMPI_FIRST_RANKS OMPI_NUM_APP_CTX";

// The lists that tell the tasks of each host: 2(x3),1. Those of this host by number: 0,1.
constexpr std::array<const char*, 2> kTasksPerNode = {"SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"};
constexpr const char* kTasksHere = "SLURM_GTIDS";

// The worker's own place has been written there, and these settings are the user's.
bool stays(std::string_view name) { return name == "PMIX_RANK" || name.starts_with("PMIX_MCA_"); }

// Returns whether what was told is true.
bool correct(std::map<std::string, std::string>& environment, std::string_view name, int number) {
    const auto told = environment.find(std::string(name));
    if (told == environment.end()) return true;
    std::string truth = std::to_string(number);
    const bool was_true = told->second == truth;
    told->second = std::move(truth);
    return was_true;
}

void close(std::map<std::string, std::string>& environment, std::string_view ways) {
    for (const std::string_view way : split_at(ways, ' ')) {
        const bool is_prefix = way.ends_with('*');
        const std::string_view begin = way.substr(0, way.size() - (is_prefix ? 1 : 0));
        std::erase_if(environment, [&](const auto& variable) {
            const std::string_view name = variable.first;
            return (is_prefix ? name.starts_with(begin) : name == begin) && !stays(name);
        });
    }
}

// Of hosts that have unlike numbers of workers the lists are not known here.
void correct_lists(std::map<std::string, std::string>& environment, const TaskPlace& place) {
    const bool are_even = place.nodes * place.local_size == place.size;
    const std::string list = place.nodes == 1 ? fmt::format("{}", place.local_size)
                                              : fmt::format("{}(x{})", place.local_size, place.nodes);
    for (const char* name : kTasksPerNode) {
        if (!environment.contains(name)) continue;
        if (are_even)
            environment[name] = list;
        else
            environment.erase(name);
    }
    const auto here = environment.find(kTasksHere);
    if (here == environment.end()) return;
    here->second.clear();
    for (int i = 0; i < place.local_size; ++i)
        here->second += fmt::format("{}{}", i > 0 ? "," : "", place.rank - place.local_rank + i);
}

}  // namespace

void correct_task_variables(std::map<std::string, std::string>& environment, const TaskPlace& place) {
    for (const TaskPlaceNames& names : kTaskPlaces) {
        const bool has_place = correct(environment, names.rank, place.rank);
        const bool has_size = correct(environment, names.size, place.size);
        correct(environment, names.local_rank, place.local_rank);
        correct(environment, names.local_size, place.local_size);
        const bool is_task = has_place && (has_size || names.rank.empty());
        if (!is_task) close(environment, names.ways.empty() ? kMpiWays : names.ways);
    }
    correct_lists(environment, place);
}

}  // namespace base
}  // namespace ddprun
