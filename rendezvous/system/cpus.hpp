// How many CPUs there are to share: what the machine has, the affinity of this process and the quota of its control groups
// allow. Parsers are pure; the finders read the system, from paths that tests replace.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline base {

// How many CPUs the quota in the text of a cgroup v2 `cpu.max` file ("150000 100000") allows; nothing for
// "max" or for another form.
std::optional<double> parse_cpu_max(std::string_view text);

// The same of cgroup v1: the texts of cpu.cfs_quota_us (-1: no quota) and cpu.cfs_period_us.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

// Where the cgroups of a process are, out of the text of /proc/self/cgroup: its folder in the v2 hierarchy
// ("0::/a/b"), and its folder in the v1 hierarchy that has the cpu controller.
struct CgroupFolders {
    std::optional<std::string> unified;
    std::optional<std::string> cpu;

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

}  // namespace ddprun::inline base
