// Each worker of this node gets its GPU, CPUs, memory and network adapter, which are decided together here. Pure.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/plan/cpu_binding.hpp"
#include "launcher/plan/device_binding.hpp"
#include "launcher/plan/topology.hpp"

namespace ddprun::inline launch {

struct WorkerPlacement {
    CpuList cpus;            // empty: not bound
    std::optional<int> gpu;  // its place among NodeDevices::gpus
    std::string nic;         // nearest to it; empty: none, or not known
    int memory_node = -1;    // whose memory is preferred; -1: no policy
};

// Says where a worker runs, for -v and --dry-run: "CPUs 0-7, NUMA node 0 and its memory, GPU 4 (0000:3b:00.0, NUMA node 0), NIC mlx5_0".
std::string placement_text(const WorkerPlacement& worker, const NodeDevices& devices,
                           const Topology& topology);

// NodeHardware is what was found on this node.
struct NodeHardware {
    NodeDevices devices;
    std::vector<Nic> nics;
    Topology topology;  // empty where nobody asks for it: neither bound nor shown
    int usable_cpus = 1;
    std::string memory_refusal;  // why no process here may choose its memory's NUMA node; empty: it may
};

struct PlacedWorker {
    WorkerPlacement placement;
    int threads = 1;   // OMP_NUM_THREADS
    std::string text;  // placement_text(); empty where the topology was not asked for
};

struct NodePlacement {
    std::vector<PlacedWorker> workers;  // one for each local rank
    std::string remark;                 // what of the binding cannot be done, in one line; empty: nothing
};

// Places the workers, or returns the line that refuses it. It takes the hardware's devices, not `devices.devices`.
std::variant<NodePlacement, std::string> place_workers(BindingRequest devices, CpuBind bind,
                                                       const NodeHardware& hardware);

}  // namespace ddprun::inline launch
