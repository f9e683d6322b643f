#include "launcher/watchdog/timer_owner.hpp"

#include <algorithm>

namespace ddprun::inline launch {
namespace {

const ProcessStat* process_of(pid_t pid, const std::vector<ProcessStat>& processes) {
    const auto found = std::find_if(processes.begin(), processes.end(),
                                    [pid](const ProcessStat& process) { return process.pid == pid; });
    return found == processes.end() ? nullptr : &*found;
}

}  // namespace

std::optional<pid_t> owner_of(pid_t pid, const std::vector<pid_t>& workers,
                              const std::vector<ProcessStat>& processes) {
    const auto is_worker = [&workers](pid_t one) {
        return std::find(workers.begin(), workers.end(), one) != workers.end();
    };
    const ProcessStat* named = process_of(pid, processes);
    if (named == nullptr) return std::nullopt;
    // A table that was read while numbers were given anew may hold a circle.
    std::size_t steps = 0;
    for (const ProcessStat* process = named; process != nullptr && steps <= processes.size(); ++steps) {
        if (is_worker(process->pid)) return process->pid;
        process = process_of(process->parent, processes);
    }
    return is_worker(named->process_group) ? std::optional(named->process_group) : std::nullopt;
}

}  // namespace ddprun::inline launch
