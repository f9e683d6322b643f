#include "launcher/process/process_group.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "launcher/process/process_table.hpp"

namespace ddprun {

bool process_group_alive(pid_t process_group, const std::filesystem::path& proc) {
    if (::kill(-process_group, 0) < 0 && errno == ESRCH) return false;
    const auto table = read_own_processes(proc);
    // Without /proc a zombie cannot be told from a living process.
    if (!table) return true;
    return std::any_of(table->begin(), table->end(), [&](const ProcessStat& process) {
        return process.process_group == process_group && !process.ended();
    });
}

}  // namespace ddprun
