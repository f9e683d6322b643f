#include "launcher/start/carried_environment.hpp"

#include "launcher/cluster/family.hpp"

namespace ddprun::inline launch {
namespace {

// An asterisk stands for all that begin so. The table of families has what a scheduler's step sets.
constexpr std::string_view kHostBound =
    "SSH_* DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR XDG_SESSION_* XDG_SEAT XDG_VTNR DBUS_SESSION_BUS_ADDRESS "
    "HOSTNAME HOST TMPDIR KRB5CCNAME GPG_TTY GPG_AGENT_INFO WINDOWID TMUX TMUX_PANE STY INVOCATION_ID JOURNAL_STREAM NOTIFY_SOCKET LISTEN_*";

// They may be another node's numbers.
constexpr std::string_view kGpuMasks =
    "CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK GPU_DEVICE_ORDINAL";

// These stay besides the masks; by the last one those of CUDA are counted.
constexpr std::string_view kKeptClean =
    "HOME USER LOGNAME SHELL PATH TERM LANG LANGUAGE LC_* TZ TMPDIR HOSTNAME CUDA_DEVICE_ORDER";

}  // namespace

bool is_host_bound(std::string_view name) {
    return matches_pattern(name, kHostBound) || is_bound_to_step(name);
}

Environment carried_environment(const Environment& environment) {
    Environment carried = environment;
    std::erase_if(carried, [](const auto& variable) { return is_host_bound(variable.first); });
    return carried;
}

Environment agent_environment(const Environment& carried, const Environment& own, HostsOwn which) {
    if (which.all) return own;
    Environment environment = carried;
    for (const auto& [name, value] : own) {
        if (is_host_bound(name) || (which.gpus && matches_pattern(name, kGpuMasks)))
            environment[name] = value;
    }
    return environment;
}

Environment clean_environment(const Environment& environment) {
    Environment clean = environment;
    std::erase_if(clean, [](const auto& variable) {
        return !matches_pattern(variable.first, kKeptClean) && !matches_pattern(variable.first, kGpuMasks);
    });
    return clean;
}

}  // namespace ddprun::inline launch
