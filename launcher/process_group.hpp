// Whether a process group still has a living member. Linux reports the end of a child, never that of a group.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string_view>

namespace ddprun {

// What one line of /proc/<pid>/stat says about membership.
struct GroupMembership {
    pid_t process_group = 0;
    bool ended = false;  // a zombie: it waits only for its parent to look
};

// Pure. Nothing if the line has not that form. The command in it may hold any characters, parentheses as
// well.
std::optional<GroupMembership> parse_process_stat(std::string_view line);

// True if a process of the group runs. Zombies do not count, since not every init of a container reaps its
// orphans.
bool process_group_alive(pid_t process_group, const std::filesystem::path& proc = "/proc");

}  // namespace ddprun
