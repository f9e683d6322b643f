#include "rendezvous/worker/task_variables.hpp"

#include <array>
#include <string_view>

namespace ddprun::inline base {
namespace {

// The names by which one launcher tells a task its place; empty: it does not tell that.
struct TaskPlaceNames {
    std::string_view rank, size, local_rank, local_size;
};
constexpr std::array<TaskPlaceNames, 11> kTaskPlaces{{
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"", "", "OMPI_COMM_WORLD_NODE_RANK", ""},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
    {"", "SLURM_NPROCS", "", ""},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PMIX_RANK", "", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
    {"PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
    {"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""},
}};

constexpr std::array<const char*, 9> kWaysIn = {
    "PMI_FD",           "PMI_PORT",          "PMI_ID",           "PMIX_NAMESPACE",  "PMIX_SERVER_URI",
    "PMIX_SERVER_URI2", "PMIX_SERVER_URI21", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4"};

// Returns whether what was told is true.
bool correct(std::map<std::string, std::string>& environment, std::string_view name, int number) {
    const auto told = environment.find(std::string(name));
    if (told == environment.end()) return true;
    std::string truth = std::to_string(number);
    const bool was_true = told->second == truth;
    told->second = std::move(truth);
    return was_true;
}

}  // namespace

void correct_task_variables(std::map<std::string, std::string>& environment, const TaskPlace& place) {
    bool is_task = true;
    for (const TaskPlaceNames& names : kTaskPlaces) {
        const bool has_place = correct(environment, names.rank, place.rank);
        const bool has_size = correct(environment, names.size, place.size);
        is_task = is_task && has_place && (has_size || names.rank.empty());
        correct(environment, names.local_rank, place.local_rank);
        correct(environment, names.local_size, place.local_size);
    }
    if (is_task) return;
    for (const char* way : kWaysIn) environment.erase(way);
}

}  // namespace ddprun::inline base
