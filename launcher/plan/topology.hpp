// Topology: how the CPUs of this machine lie, as sysfs and /proc tell. All is read once, at start-up. Readers
// take the root folder, so that tests give them other machines. What a machine does not tell of its CPUs is
// filled in, so that binding still works.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/plan/cpu_list.hpp"

namespace ddprun {
inline namespace launch {

// CpuPlace says where a CPU is. A group is named by its lowest CPU on this machine.
struct CpuPlace {
    int cpu = 0;
    int core = 0;    // the hardware threads of one core; where unknown, each CPU is a core
    int cache = 0;   // the CPUs that share a last-level cache; where unknown, those of the NUMA node
    int socket = 0;  // the kernel's number; 0 where unknown
    int node = 0;    // the NUMA node's number; 0 where the kernel has none

    bool operator==(const CpuPlace&) const = default;
};

// A Topology is sorted by CPU.
struct Topology {
    std::vector<CpuPlace> cpus;
    CpuList memory_nodes;  // NUMA nodes with memory that this process may use

    CpuList nodes_of(const CpuList& some_cpus) const;
};

// Reads root/sys/devices/system and root/proc/self/status. Blocks; some files for each core.
Topology read_topology(const CpuList& allowed, const std::filesystem::path& root = "/");

// Says why this process may not choose the NUMA node of its memory, in the system's words; empty if it may.
// Containers often forbid the system call.
std::string memory_policy_refusal();

}  // namespace launch
}  // namespace ddprun
