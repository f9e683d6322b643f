#include "launcher/jobs/deciding_variables.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "launcher/secret_name.hpp"

namespace ddprun::inline launch {
namespace {

// Wherever the launcher is started, within a worker, too.
constexpr std::array<std::string_view, 5> kOwnBeginnings = {"DDPRUN_", "PET_", "TORCHELASTIC_LOG_LINE_",
                                                            "TORCHELASTIC_HEALTH_", "TORCH_ELASTIC_"};
constexpr std::array<std::string_view, 8> kOwnNames = {
    "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
    "CUDA_DEVICE_ORDER",    "OMP_NUM_THREADS",     "PYTHON_EXEC",          "VIRTUAL_ENV"};

// What the families of launcher/cluster/ read.
constexpr std::array<std::string_view, 40> kClusterBeginnings = {
    "MASTER_",  "SLURM",        "OMPI_",       "PMI_",       "PMIX_",         "MPI_",       "MV2_",
    "MVAPICH_", "HYDRA_",       "FLUX_",       "PALS_",      "JSM_",          "HOROVOD_",   "LSB_",
    "LSF_",     "PBS_",         "SGE_",        "PE_",        "COBALT_",       "OAR_",       "LOADL_",
    "LWS_",     "LEPTON_",      "SM_",         "SKYPILOT_",  "DSTACK_",       "AWS_BATCH_", "AZ_BATCH",
    "AZUREML_", "VC_",          "K_MPI_",      "JOB_",       "TRAINING_JOB_", "JOBSET_",    "VK_",
    "HYDI_",    "I_MPI_HYDRA_", "TPU_WORKER_", "MEGASCALE_", "JAX_"};
constexpr std::array<std::string_view, 13> kClusterNames = {
    "RANK",        "LOCAL_RANK",     "WORLD_SIZE",          "NODE_RANK",
    "NNODES",      "GROUP_RANK",     "LOCAL_WORLD_SIZE",    "ARC",
    "NHOSTS",      "NPROC_PER_NODE", "REPLICATED_JOB_NAME", "KUBERNETES_SERVICE_HOST",
    "CLUSTER_SPEC"};

// What a worker gets by the names of options, or beside them (worker_env.hpp, and the devices).
constexpr std::array<std::string_view, 9> kOfWorkers = {
    "DDPRUN_RUN_ID",   "DDPRUN_ROUND", "DDPRUN_RESTART_REASON", "DDPRUN_MASTER_ADDR", "DDPRUN_NODE_ADDR",
    "DDPRUN_MESH_KEY", "DDPRUN_LIFE",  "DDPRUN_DEVICE",         "DDPRUN_NIC"};

template <std::size_t count>
bool is_one_of(std::string_view name, const std::array<std::string_view, count>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

template <std::size_t count>
bool begins_with_one_of(std::string_view name, const std::array<std::string_view, count>& beginnings) {
    return std::any_of(beginnings.begin(), beginnings.end(),
                       [name](std::string_view beginning) { return name.starts_with(beginning); });
}

bool is_own(std::string_view name) {
    return begins_with_one_of(name, kOwnBeginnings) || is_one_of(name, kOwnNames);
}

// As cluster_table.hpp has it.
bool is_in_job(const Environment& environment) {
    return environment.contains("DDPRUN_RUN_ID") || environment.contains("TORCHELASTIC_RUN_ID");
}

}  // namespace

bool is_deciding(std::string_view name) {
    return is_own(name) || begins_with_one_of(name, kClusterBeginnings) || is_one_of(name, kClusterNames);
}

Environment deciding_variables(const Environment& environment) {
    const bool is_inside = is_in_job(environment);
    Environment deciding;
    for (const auto& [name, value] : environment) {
        const bool decides = is_inside ? is_own(name) && !is_one_of(name, kOfWorkers) : is_deciding(name);
        if (decides && !is_secret_name(name)) deciding.emplace(name, value);
    }
    return deciding;
}

Environment as_recorded(Environment own, const Environment& recorded) {
    const bool is_inside = is_in_job(own);
    std::erase_if(own, [is_inside](const auto& entry) {
        const std::string& name = entry.first;
        // An outer job's own marks are how it finds what it has to end.
        return is_deciding(name) && !is_secret_name(name) && !(is_inside && is_one_of(name, kOfWorkers));
    });
    for (const auto& [name, value] : recorded) own[name] = value;
    return own;
}

}  // namespace ddprun::inline launch
