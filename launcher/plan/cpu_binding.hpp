// bind_cpus decides on which CPUs each worker of this node may run, out of those that the launcher may use.
// place_workers adds the GPU, the memory and the network adapter. Pure.
//
// A worker's NUMA node is that of its GPU. Without GPUs, where the GPU's node is unknown, or where none of
// its CPUs may be used, workers are spread over the nodes in proportion to the cores there, in order of the
// local rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/plan/cpu_list.hpp"
#include "launcher/plan/device_binding.hpp"
#include "launcher/plan/nics.hpp"
#include "launcher/plan/topology.hpp"

namespace ddprun {
inline namespace launch {

// CpuBind is the choice of --bind and --numa-binding. The modes of torchrun share cores and caches out among
// all GPUs that can be seen, whether a worker uses them or not, as torchrun does.
enum class CpuBind {
    none,
    cores,      // each worker has cores of its own, near its GPU; where they do not suffice, CPUs are shared
    numa,       // all of its NUMA node; torchrun's name is node
    socket,     // all NUMA nodes of its socket
    exclusive,  // like cores, but too few are refused
    core_complex,  // the cores of its NUMA node that share one last-level cache; caches are taken in turn
};

std::optional<CpuBind> parse_bind(std::string_view text);          // cores, numa, none
std::optional<CpuBind> parse_numa_binding(std::string_view text);  // node, socket, exclusive, core-complex

struct CpuBindRequest {
    CpuBind bind = CpuBind::none;
    std::vector<CpuPlace> cpus;  // that the launcher may use, sorted
    int workers = 1;
    // gpu_nodes: the NUMA node of each GPU that the node's workers see, in the order in which they take them.
    // Nothing: unknown. Where workers outnumber GPUs, they take them in turn.
    std::vector<std::optional<int>> gpu_nodes;
};

// Makes one list for each local rank, never empty but for `none`; or a line that says why not.
std::variant<std::vector<CpuList>, std::string> bind_cpus(const CpuBindRequest& request);

// Returns OMP_NUM_THREADS for each of `local_workers`: at least 1.
int omp_threads(int usable, int local_workers);

// Returns OMP_NUM_THREADS of each worker: the number of its CPUs, where a shared CPU counts in part. The
// number is smaller where a quota pays for fewer CPUs (`usable`) than are bound. An unbound worker gets its
// part of `usable`. At least 1.
std::vector<int> threads_of(const std::vector<CpuList>& bound, int usable);

// WorkerPlacement is each worker's GPU, CPUs, memory and network adapter, which are decided together.

struct WorkerPlacement {
    CpuList cpus;            // empty: not bound
    std::optional<int> gpu;  // its index in NodeDevices::gpus
    std::string nic;         // nearest to the GPU; empty: none, or not known
    int memory_node = -1;    // the NUMA node of the preferred memory; -1: no policy
};

// Says where a worker runs, for -v and --dry-run: "CPUs 0-7, NUMA node 0 and its memory, GPU 4 (0000:3b:00.0,
// NUMA node 0), NIC mlx5_0".
std::string placement_text(const WorkerPlacement& worker, const NodeDevices& devices,
                           const Topology& topology);

struct NodeHardware {
    NodeDevices devices;
    std::vector<Nic> nics;
    Topology topology;  // empty where it is not needed: neither bound nor shown
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

// Places the workers, or returns the line that refuses them. Uses the hardware's devices, not
// `devices.devices`.
std::variant<NodePlacement, std::string> place_workers(BindingRequest devices, CpuBind bind,
                                                       const NodeHardware& hardware);

}  // namespace launch
}  // namespace ddprun
