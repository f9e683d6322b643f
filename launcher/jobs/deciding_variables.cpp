#include "launcher/jobs/deciding_variables.hpp"

#include <string>

#include "launcher/cluster/family.hpp"
#include "launcher/secret_name.hpp"

namespace ddprun::inline launch {
namespace {

// These decide wherever the launcher is started, within a worker, too. With an asterisk: all that begin so.
constexpr std::string_view kOwn =
    "DDPRUN_* PET_* TORCHELASTIC_LOG_LINE_* TORCHELASTIC_HEALTH_* TORCH_ELASTIC_* CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES "
    "ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK CUDA_DEVICE_ORDER OMP_NUM_THREADS PYTHON_EXEC VIRTUAL_ENV";

// A worker gets these by the names of options, or beside them (worker_env.hpp, and the devices).
constexpr std::string_view kGivenToWorkers =
    "DDPRUN_RUN_ID DDPRUN_ROUND DDPRUN_RESTART_REASON DDPRUN_MASTER_ADDR DDPRUN_NODE_ADDR DDPRUN_MESH_KEY DDPRUN_LIFE "
    "DDPRUN_DEVICE DDPRUN_NIC";

bool is_own(std::string_view name) { return matches_pattern(name, kOwn); }

// Says the same as cluster_table.cpp.
bool is_in_job(const Environment& environment) {
    return environment.contains("DDPRUN_RUN_ID") || environment.contains("TORCHELASTIC_RUN_ID");
}

}  // namespace

bool is_deciding(std::string_view name) { return is_own(name) || is_cluster_variable(name); }

Environment deciding_variables(const Environment& environment) {
    const bool is_inside = is_in_job(environment);
    Environment deciding;
    for (const auto& [name, value] : environment) {
        const bool decides =
            is_inside ? is_own(name) && !matches_pattern(name, kGivenToWorkers) : is_deciding(name);
        if (decides && !is_secret_name(name)) deciding.emplace(name, value);
    }
    return deciding;
}

Environment as_recorded(Environment own, const Environment& recorded) {
    const bool is_inside = is_in_job(own);
    std::erase_if(own, [is_inside](const auto& entry) {
        const std::string& name = entry.first;
        // An outer job's own marks are how it finds what it has to end.
        return is_deciding(name) && !is_secret_name(name) &&
               !(is_inside && matches_pattern(name, kGivenToWorkers));
    });
    for (const auto& [name, value] : recorded) own[name] = value;
    return own;
}

}  // namespace ddprun::inline launch
