// How many CPUs and how much memory this process may use: what the machine has, its affinity, its limit of
// address space, and what its control groups (version 2 and 1) allow. Parsers are pure; the finders read the
// system, from paths that tests replace.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

// How many CPUs the quota in the text of a cgroup v2 `cpu.max` file ("150000 100000") allows; nothing for
// "max" or for another form.
std::optional<double> parse_cpu_max(std::string_view text);

// The same of cgroup v1: the texts of cpu.cfs_quota_us (-1: no quota) and cpu.cfs_period_us.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

// Where the cgroups of a process are, out of the text of /proc/self/cgroup: its folder in the v2 hierarchy
// ("0::/a/b"), and its folders in the v1 hierarchies that have these controllers.
struct CgroupFolders {
    std::optional<std::string> unified;
    std::optional<std::string> cpu;
    std::optional<std::string> memory = {};

    bool operator==(const CgroupFolders&) const = default;
};
CgroupFolders parse_cgroup_folders(std::string_view text);

// The tightest CPU quota on the way from this process's cgroup to the root; nothing without one. In a
// container the folder named in /proc/self/cgroup may be the host's; its root is then looked at.
std::optional<double> find_cpu_quota(const std::filesystem::path& cgroup_file = "/proc/self/cgroup",
                                     const std::filesystem::path& cgroup_root = "/sys/fs/cgroup");

// CPUs that this machine has; at least 1.
int online_cpus();

// CPUs that this process may be scheduled on, ascending; all of the machine where the kernel does not tell.
std::vector<int> affinity_cpus();

// Whole CPUs that are usable of `cpus`: at least 1, and no more than the quota pays for.
int usable_cpus(int cpus, std::optional<double> quota);

// How many bytes of memory this process may take: the least of what the machine has, what its control groups
// allow (each up to the root) and its own limit of address space. Reads small files of /proc and /sys; what
// cannot be read limits nothing.
std::size_t memory_limit();

// Returns the least limit of the groups that `own_groups` (the text of /proc/self/cgroup) names. `read` gives
// the text of a file of the control group's file system, or nothing; paths begin with "/sys/fs/cgroup".
std::optional<std::size_t> control_group_limit(
    std::string_view own_groups, const std::function<std::optional<std::string>(const std::string&)>& read);

// How many processes and threads the control groups of this process (version 2) let it have; nothing: no
// limit, or unknown.
std::optional<std::size_t> process_limit();

}  // namespace base
}  // namespace ddprun
