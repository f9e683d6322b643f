// usable_cpus(), memory_limit() and process_limit() say how much this process may use: of the machine, by its
// affinity, its limit of address space, and its control groups (versions 2 and 1). Parsers are pure; the
// finders read the system, from paths that tests replace.
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

// Returns how many CPUs a cgroup v2 `cpu.max` file ("150000 100000") allows; nothing for "max" or another
// form.
std::optional<double> parse_cpu_max(std::string_view text);

// Returns how many CPUs the texts of cgroup v1's cpu.cfs_quota_us (-1: no quota) and cpu.cfs_period_us allow.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

// CgroupFolders are a process's folders in the text of /proc/self/cgroup: in the v2 hierarchy ("0::/a/b"),
// and in the v1 hierarchies with these controllers.
struct CgroupFolders {
    std::optional<std::string> unified;
    std::optional<std::string> cpu;
    std::optional<std::string> memory = {};

    bool operator==(const CgroupFolders&) const = default;
};
CgroupFolders parse_cgroup_folders(std::string_view text);

// Returns the tightest CPU quota on the way from this process's cgroup to the root; nothing without a quota.
// In a container the folder named in /proc/self/cgroup may be the host's; only the root is looked at then.
std::optional<double> find_cpu_quota(const std::filesystem::path& cgroup_file = "/proc/self/cgroup",
                                     const std::filesystem::path& cgroup_root = "/sys/fs/cgroup");

// Returns the number of CPUs that are online, at least 1.
int online_cpus();

// Returns the CPUs that this process may be scheduled on, ascending; all of the machine where the kernel does
// not tell.
std::vector<int> affinity_cpus();

// Returns how many whole CPUs of `cpus` the quota allows, at least 1.
int usable_cpus(int cpus, std::optional<double> quota);

// Returns the bytes of memory that this process may take: the least of the machine's memory, the limits of
// all its control groups up to the root, and its limit of address space. Reads small files of /proc and /sys;
// what cannot be read limits nothing.
std::size_t memory_limit();

// Returns the least memory limit of the groups that `own_groups` (the text of /proc/self/cgroup) names.
// `read` returns the text of a file of the control groups' file system, or nothing; paths begin with
// "/sys/fs/cgroup".
std::optional<std::size_t> control_group_limit(
    std::string_view own_groups, const std::function<std::optional<std::string>(const std::string&)>& read);

// Returns how many processes and threads the control groups (version 2) allow; nothing: no limit, or unknown.
std::optional<std::size_t> process_limit();

}  // namespace base
}  // namespace ddprun
