#include "launcher/plan/placement_text.hpp"

#include <fmt/core.h>

namespace ddprun::inline launch {
namespace {

std::string cpus_text(const WorkerPlacement& worker, const Topology& topology) {
    CpuList cpus = worker.cpus;
    if (cpus.empty()) {
        for (const CpuPlace& place : topology.cpus) cpus.push_back(place.cpu);
    }
    const CpuList nodes = topology.nodes_of(cpus);
    return fmt::format("{}CPU{} {}, NUMA node{} {}{}", worker.cpus.empty() ? "any of " : "",
                       cpus.size() == 1 ? "" : "s", cpu_list_text(cpus), nodes.size() == 1 ? "" : "s",
                       cpu_list_text(nodes), worker.memory_node < 0 ? "" : " and its memory");
}

std::string gpu_text(const VisibleGpu& gpu) {
    const std::string name = gpu.name.starts_with("GPU-") || gpu.name.starts_with("MIG-")
                                 ? gpu.name
                                 : fmt::format("GPU {}", gpu.name);
    if (!gpu.place) return name;
    if (gpu.place->node < 0) return fmt::format("{} ({})", name, gpu.place->address);
    return fmt::format("{} ({}, NUMA node {})", name, gpu.place->address, gpu.place->node);
}

}  // namespace

std::string placement_text(const WorkerPlacement& worker, const NodeDevices& devices,
                           const Topology& topology) {
    std::string text = cpus_text(worker, topology);
    if (worker.gpu) text += ", " + gpu_text(devices.gpus.at(static_cast<std::size_t>(*worker.gpu)));
    if (!worker.nic.empty()) text += ", NIC " + worker.nic;
    return text;
}

}  // namespace ddprun::inline launch
