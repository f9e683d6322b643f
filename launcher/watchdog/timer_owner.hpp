// Whose a process is. Pure.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "launcher/process/process_table.hpp"

namespace ddprun::inline launch {

// The worker that this process is, or is below, or in whose process group it is if its own parents have ended. Nothing for
// what is none of theirs: the launcher itself and its helpers, and everybody else.
std::optional<pid_t> owner_of(pid_t pid, const std::vector<pid_t>& workers,
                              const std::vector<ProcessStat>& processes);

}  // namespace ddprun::inline launch
