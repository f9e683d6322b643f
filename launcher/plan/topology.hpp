// Topology: how the CPUs that this launcher may use lie in the machine, as sysfs tells. The reader takes the root
// folder, so that tests give it other machines; what a machine does not tell is filled in so that binding works
// all the same.
#pragma once

#include <filesystem>
#include <vector>

#include "launcher/plan/cpu_list.hpp"

namespace ddprun::inline launch {

// Groups are named by the lowest CPU of this machine that is in them.
struct CpuPlace {
    int cpu = 0;
    int core = 0;    // the hardware threads of one core; where unknown, each CPU is a core
    int cache = 0;   // those that share a last-level cache; where unknown, the NUMA node is one
    int socket = 0;  // the kernel's number; 0 where unknown
    int node = 0;    // the NUMA node's number; 0 where the kernel has none

    bool operator==(const CpuPlace&) const = default;
};

// Sorted by CPU.
struct Topology {
    std::vector<CpuPlace> cpus;
    CpuList memory_nodes;  // NUMA nodes with memory that this process may use

    CpuList nodes_of(const CpuList& some_cpus) const;
};

// Reads root/sys/devices/system and root/proc/self/status. Blocking; some files for each core.
Topology read_topology(const CpuList& allowed, const std::filesystem::path& root = "/");

// Why this process may not choose the NUMA node of its memory, in the system's words; empty if it may. Containers
// often forbid the system call.
std::string memory_policy_refusal();

}  // namespace ddprun::inline launch
