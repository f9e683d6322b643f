// Where a worker runs, in words: for -v and --dry-run. Pure.
#pragma once

#include <optional>
#include <string>

#include "launcher/plan/device_masks.hpp"
#include "launcher/plan/topology.hpp"

namespace ddprun::inline launch {

struct WorkerPlacement {
    CpuList cpus;            // empty: not bound
    std::optional<int> gpu;  // its place among NodeDevices::gpus
    std::string nic;         // nearest to it; empty: none, or not known
    int memory_node = -1;    // whose memory is preferred; -1: no policy
};

// "CPUs 0-7, NUMA node 0 and its memory, GPU 4 (0000:3b:00.0, NUMA node 0), NIC mlx5_0".
std::string placement_text(const WorkerPlacement& worker, const NodeDevices& devices,
                           const Topology& topology);

}  // namespace ddprun::inline launch
