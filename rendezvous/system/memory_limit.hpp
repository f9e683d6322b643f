// This process may take so much memory: the least of what the machine has, what its control groups allow (version 2 and
// 1, each up to the root) and its own limit of address space.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::inline base {

// Returns bytes. Reads small files of /proc and /sys; what cannot be read limits nothing.
std::size_t memory_limit();

// Returns the least limit of the groups that `own_groups` (the text of /proc/self/cgroup) names. `read` gives the
// text of a file of the control group's file system, or nothing; paths begin with "/sys/fs/cgroup".
std::optional<std::size_t> control_group_limit(
    std::string_view own_groups, const std::function<std::optional<std::string>(const std::string&)>& read);

}  // namespace ddprun::inline base
