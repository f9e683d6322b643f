// How many CPUs this node has for its workers. Parsers are pure; the finders read the system once, at start-up, from
// paths that tests replace.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/plan/cpu_list.hpp"

namespace ddprun::inline launch {

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

// CPUs that this process may be scheduled on; all of the machine where the kernel does not tell.
CpuList affinity_cpus();

// Why this process may not choose the NUMA node of its memory, in the system's words; empty if it may. Containers
// often forbid the system call.
std::string memory_policy_refusal();

// Whole CPUs that are usable: at least 1, no more than the affinity, and no more than the quota pays for.
int usable_cpus(int affinity_cpus, std::optional<double> quota);

// OMP_NUM_THREADS for each of `local_workers`: at least 1.
int omp_threads(int usable, int local_workers);

}  // namespace ddprun::inline launch
