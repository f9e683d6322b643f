// CPU binding: which CPUs each worker of this node may run on, out of those that the launcher may use. Pure.
//
// A worker's NUMA node is that of its GPU. Without GPUs, where theirs is unknown, and where none of its CPUs may be
// used, workers are spread over the nodes in proportion to the cores there, in order of the local rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/plan/topology.hpp"

namespace ddprun::inline launch {

// --bind and --numa-binding. Those of torchrun share cores and caches out among all GPUs that can be seen, whether a
// worker uses them or not, as torchrun does.
enum class CpuBind {
    none,
    cores,      // each worker has cores of its own, near its GPU; where they do not suffice, CPUs are shared
    numa,       // all of its NUMA node; torchrun's name is node
    socket,     // all NUMA nodes of its socket
    exclusive,  // as cores, but too few are refused
    core_complex,  // the cores of its NUMA node that share one last-level cache; caches are taken in turn
};

std::optional<CpuBind> parse_bind(std::string_view text);          // cores, numa, none
std::optional<CpuBind> parse_numa_binding(std::string_view text);  // node, socket, exclusive, core-complex

struct CpuBindRequest {
    CpuBind bind = CpuBind::none;
    std::vector<CpuPlace> cpus;  // that the launcher may use, sorted
    int workers = 1;
    // The NUMA node of each GPU that the node's workers see, in the order in which they take them; nothing where it is
    // not known. More workers than GPUs take them in turn.
    std::vector<std::optional<int>> gpu_nodes;
};

// One list for each local rank, never empty but for `none`; or a line that says why not.
std::variant<std::vector<CpuList>, std::string> bind_cpus(const CpuBindRequest& request);

// OMP_NUM_THREADS for each of `local_workers`: at least 1.
int omp_threads(int usable, int local_workers);

// OMP_NUM_THREADS of each worker: its CPUs, of which one that several may use counts in part; less where a quota pays
// for fewer than are bound, which are `usable`; at least 1. Where nothing is bound, its part of those.
std::vector<int> threads_of(const std::vector<CpuList>& bound, int usable);

}  // namespace ddprun::inline launch
