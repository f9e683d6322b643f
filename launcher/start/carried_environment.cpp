#include "launcher/start/carried_environment.hpp"

#include <algorithm>
#include <array>

namespace ddprun::inline launch {
namespace {

// With an asterisk: all that begin so.
constexpr std::array<std::string_view, 50> kHostBound{
    "SSH_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "XDG_SEAT",
    "XDG_VTNR", "DBUS_SESSION_BUS_ADDRESS", "HOSTNAME", "HOST", "TMPDIR", "KRB5CCNAME", "GPG_TTY",
    "GPG_AGENT_INFO", "WINDOWID", "TMUX", "TMUX_PANE", "STY", "INVOCATION_ID", "JOURNAL_STREAM",
    "NOTIFY_SOCKET", "LISTEN_*",
    // of a scheduler's step or of a process in it
    "SLURM_CPUS_ON_NODE", "SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP*", "SLURM_PROCID",
    "SLURM_LOCALID", "SLURM_NODEID", "SLURM_TASK_PID", "SLURM_GTIDS", "SLURM_CPU_BIND*", "SLURM_MEM_BIND*",
    "SLURM_TOPOLOGY_ADDR*", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_*", "SLURMD_*", "SRUN_*", "OMPI_*",
    "PMI_*", "PMIX_*", "PRTE_*", "PALS_*", "HYDI_*", "HYDRA_*", "MPI_LOCAL*", "JSM_*", "FLUX_*",
    "PBS_NODENUM"};

// They may be another node's numbers.
constexpr std::array<std::string_view, 5> kGpuMasks{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                                    "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
                                                    "GPU_DEVICE_ORDINAL"};

// Besides the masks; by the last one those of CUDA are counted.
constexpr std::array<std::string_view, 13> kKeptClean{
    "HOME",   "USER",     "LOGNAME",          "SHELL", "PATH", "TERM", "LANG", "LANGUAGE", "LC_*", "TZ",
    "TMPDIR", "HOSTNAME", "CUDA_DEVICE_ORDER"};

template <std::size_t kCount>
bool is_listed(const std::array<std::string_view, kCount>& list, std::string_view name) {
    return std::any_of(list.begin(), list.end(), [name](std::string_view entry) {
        return entry.ends_with('*') ? name.starts_with(entry.substr(0, entry.size() - 1)) : name == entry;
    });
}

}  // namespace

bool is_host_bound(std::string_view name) { return is_listed(kHostBound, name); }

Environment carried_environment(const Environment& environment) {
    Environment carried = environment;
    std::erase_if(carried, [](const auto& variable) { return is_host_bound(variable.first); });
    return carried;
}

Environment agent_environment(const Environment& carried, const Environment& own, HostsOwn which) {
    if (which.all) return own;
    Environment environment = carried;
    for (const auto& [name, value] : own) {
        if (is_host_bound(name) || (which.gpus && is_listed(kGpuMasks, name))) environment[name] = value;
    }
    return environment;
}

Environment clean_environment(const Environment& environment) {
    Environment clean = environment;
    std::erase_if(clean, [](const auto& variable) {
        return !is_listed(kKeptClean, variable.first) && !is_listed(kGpuMasks, variable.first);
    });
    return clean;
}

}  // namespace ddprun::inline launch
