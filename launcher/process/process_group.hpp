// Whether a process group still has a living member. Linux reports the end of a child, never that of a group.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace ddprun {

// True if a process of the group runs; of a group whose members are this process or below it. Zombies do not count, since not every init of a container reaps its
// orphans.
bool process_group_alive(pid_t process_group, const std::filesystem::path& proc = "/proc");

}  // namespace ddprun
