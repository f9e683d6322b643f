#include "launcher/plan/node_placement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

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

namespace {

std::vector<std::optional<PciPlace>> places_of(const NodeDevices& devices) {
    std::vector<std::optional<PciPlace>> places;
    for (const VisibleGpu& gpu : devices.gpus) places.push_back(gpu.place);
    return places;
}

// A machine with one NUMA node has no firmware that says so.
std::optional<int> node_of(const std::optional<PciPlace>& gpu, const Topology& topology) {
    if (gpu && gpu->node >= 0) return gpu->node;
    const auto& cpus = topology.cpus;
    const bool is_one = !cpus.empty() && std::all_of(cpus.begin(), cpus.end(), [&](const CpuPlace& place) {
        return place.node == cpus.front().node;
    });
    return is_one ? std::optional(cpus.front().node) : std::nullopt;
}

CpuBindRequest cpu_request(const BindingRequest& devices, CpuBind bind, const NodeHardware& hardware) {
    CpuBindRequest request{
        .bind = bind, .cpus = hardware.topology.cpus, .workers = devices.local_workers, .gpu_nodes = {}};
    if (devices.bind == GpuBind::none) return request;
    for (const auto& place : places_of(devices.devices))
        request.gpu_nodes.push_back(node_of(place, hardware.topology));
    return request;
}

// Returns the one node that its CPUs are of, where there are others. The kernel takes the memory near a CPU that asks for it
// anyway; a policy keeps that so when the scheduler or another process gets in between.
int memory_node_of(const CpuList& cpus, const Topology& topology) {
    const CpuList nodes = topology.nodes_of(cpus);
    const bool has_memory =
        nodes.size() == 1 && topology.memory_nodes.size() > 1 &&
        std::binary_search(topology.memory_nodes.begin(), topology.memory_nodes.end(), nodes.front());
    return has_memory ? nodes.front() : -1;
}

}  // namespace

std::variant<NodePlacement, std::string> place_workers(BindingRequest devices, CpuBind bind,
                                                       const NodeHardware& hardware) {
    devices.devices = with_uncounted(hardware.devices, devices.share_gpus ? 0 : devices.local_workers);
    if (std::string wrong = refuse_devices(devices); !wrong.empty()) return wrong;
    auto cpus = bind_cpus(cpu_request(devices, bind, hardware));
    if (auto* wrong = std::get_if<std::string>(&cpus)) return std::move(*wrong);
    const auto& bound = std::get<std::vector<CpuList>>(cpus);
    const std::vector<int> threads = threads_of(bound, hardware.usable_cpus);
    const std::vector<std::string> nics = nearest_nics(places_of(devices.devices), hardware.nics);

    NodePlacement node;
    bool misses_memory = false;
    for (std::size_t i = 0; i < bound.size(); ++i) {
        PlacedWorker worker{
            .placement = {.cpus = bound[i], .gpu = device_of(devices, static_cast<int>(i)), .nic = {}},
            .threads = threads[i],
            .text = {}};
        if (worker.placement.gpu)
            worker.placement.nic = nics.at(static_cast<std::size_t>(*worker.placement.gpu));
        const int memory_node = bound[i].empty() ? -1 : memory_node_of(bound[i], hardware.topology);
        if (hardware.memory_refusal.empty()) {
            worker.placement.memory_node = memory_node;
        } else {
            misses_memory = misses_memory || memory_node >= 0;
        }
        if (!hardware.topology.cpus.empty())
            worker.text = placement_text(worker.placement, devices.devices, hardware.topology);
        node.workers.push_back(std::move(worker));
    }
    if (misses_memory)
        node.remark = fmt::format("workers are bound to CPUs, but not to their memory: set_mempolicy: {}",
                                  hardware.memory_refusal);
    return node;
}

}  // namespace ddprun::inline launch
