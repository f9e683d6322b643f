#include "rendezvous/worker/task_variables.hpp"

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
constexpr std::array<TaskPlaceNames, 14> kTaskPlaces{{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"", "", "OMPI_COMM_WORLD_NODE_RANK", ""},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
    {"", "SLURM_NPROCS", "", ""},
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

// Behind PMIX_SERVER_URI stand versions of its library.
constexpr std::string_view kMpiWays =
    "PMI_FD PMI_PORT PMI_ID PMI_CONTROL_PORT PALS_APINFO PMIX_NAMESPACE PMIX_SERVER_URI PMIX_SERVER_URI2 "
    "PMIX_SERVER_URI21 PMIX_SERVER_URI3 PMIX_SERVER_URI4 PMIX_SERVER_URI41 PMIX_SERVER_URI51";

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
    for (const std::string_view way : split_at(ways, ' ')) environment.erase(std::string(way));
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
}

}  // namespace base
}  // namespace ddprun
