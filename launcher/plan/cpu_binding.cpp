#include "launcher/plan/cpu_binding.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace ddprun {
inline namespace launch {
namespace {

using Groups = std::vector<CpuList>;  // CPUs that are handed out together

// A Seat is given CPUs: a GPU that a worker may use, or a worker.
struct Seat {
    bool by_gpu = false;  // `node` is its GPU's
    int node = 0;
    int place = 0;  // among the seats of its NUMA node …
    int peers = 0;  // … and how many these are
};

std::vector<CpuPlace> by_nearness(std::vector<CpuPlace> cpus) {
    std::sort(cpus.begin(), cpus.end(), [](const CpuPlace& a, const CpuPlace& b) {
        return std::tie(a.node, a.cache, a.core, a.cpu) < std::tie(b.node, b.cache, b.core, b.cpu);
    });
    return cpus;
}

// Makes one group for each value of the member, in order of first appearance.
Groups grouped(const std::vector<CpuPlace>& cpus, int CpuPlace::*member) {
    Groups groups;
    std::map<int, std::size_t> index;
    for (const CpuPlace& place : cpus) {
        const auto [at, is_new] = index.try_emplace(place.*member, groups.size());
        if (is_new) groups.emplace_back();
        groups[at->second].push_back(place.cpu);
    }
    return groups;
}

template <class Wanted>
std::vector<CpuPlace> only(const std::vector<CpuPlace>& cpus, Wanted wanted) {
    std::vector<CpuPlace> some;
    std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(some), wanted);
    return some;
}

std::vector<CpuPlace> of_node(const std::vector<CpuPlace>& cpus, int node) {
    return only(cpus, [node](const CpuPlace& place) { return place.node == node; });
}

CpuList sorted(CpuList cpus) {
    std::sort(cpus.begin(), cpus.end());
    return cpus;
}

CpuList numbers(const std::vector<CpuPlace>& cpus) {
    CpuList list;
    for (const CpuPlace& place : cpus) list.push_back(place.cpu);
    return sorted(std::move(list));
}

std::vector<Seat> seats_of(const CpuBindRequest& request, const std::vector<CpuPlace>& cpus) {
    const std::size_t gpus = request.gpu_nodes.size();
    const Groups cores = grouped(cpus, &CpuPlace::core);
    std::vector<Seat> seats(std::max(gpus, static_cast<std::size_t>(request.workers)));
    std::map<int, int> count;
    for (std::size_t i = 0; i < seats.size(); ++i) {
        const auto node = gpus == 0 ? std::nullopt : request.gpu_nodes[i % gpus];
        seats[i].by_gpu = node && !of_node(cpus, *node).empty();
        const int at = cores[i * cores.size() / seats.size()].front();
        const auto spread =
            std::find_if(cpus.begin(), cpus.end(), [at](const CpuPlace& place) { return place.cpu == at; });
        seats[i].node = seats[i].by_gpu ? node.value_or(0) : spread->node;
        seats[i].place = count[seats[i].node]++;
    }
    for (Seat& seat : seats) seat.peers = count[seat.node];
    return seats;
}

// Returns the part of the groups that is this place's, the first ones one larger where they cannot be equal.
// Where they do not suffice, several have the same.
CpuList share(const Groups& groups, int place, int peers) {
    const int count = static_cast<int>(groups.size());
    if (count < peers) return sorted(groups[static_cast<std::size_t>(place * count / peers)]);
    const int least = count / peers, larger = count % peers;
    const int begin = place * least + std::min(place, larger);
    CpuList cpus;
    for (int i = begin; i < begin + least + (place < larger ? 1 : 0); ++i) {
        const CpuList& group = groups[static_cast<std::size_t>(i)];
        cpus.insert(cpus.end(), group.begin(), group.end());
    }
    return sorted(std::move(cpus));
}

// Shares by core, else by hardware thread.
CpuList share_cores(const std::vector<CpuPlace>& cpus, int place, int peers) {
    Groups groups = grouped(cpus, &CpuPlace::core);
    if (static_cast<int>(groups.size()) < peers) groups = grouped(cpus, &CpuPlace::cpu);
    return share(groups, place, peers);
}

// Caches with more CPUs come first.
CpuList core_complex(const std::vector<CpuPlace>& cpus, const Seat& seat) {
    Groups caches = grouped(cpus, &CpuPlace::cache);
    std::stable_sort(caches.begin(), caches.end(),
                     [](const CpuList& a, const CpuList& b) { return a.size() > b.size(); });
    return sorted(caches[static_cast<std::size_t>(seat.place) % caches.size()]);
}

CpuList socket_of_node(const std::vector<CpuPlace>& cpus, int node) {
    const auto near = of_node(cpus, node);
    const int socket = std::min_element(near.begin(), near.end(), [](const CpuPlace& a, const CpuPlace& b) {
                           return a.cpu < b.cpu;
                       })->socket;
    return numbers(only(cpus, [socket](const CpuPlace& place) { return place.socket == socket; }));
}

std::string too_few_cores(const std::vector<CpuPlace>& cpus, const std::string& where, int peers) {
    return fmt::format(
        "--numa-binding exclusive: {} GPUs or workers {}, but only {} cores that this launcher may use "
        "(CPUs {}); --bind cores lets them share",
        peers, where, grouped(cpus, &CpuPlace::core).size(), cpu_list_text(numbers(cpus)));
}

}  // namespace

std::optional<CpuBind> parse_bind(std::string_view text) {
    if (text == "cores") return CpuBind::cores;
    if (text == "numa") return CpuBind::numa;
    if (text == "none") return CpuBind::none;
    return std::nullopt;
}

std::optional<CpuBind> parse_numa_binding(std::string_view text) {
    if (text == "node") return CpuBind::numa;
    if (text == "socket") return CpuBind::socket;
    if (text == "exclusive") return CpuBind::exclusive;
    if (text == "core-complex") return CpuBind::core_complex;
    return std::nullopt;
}

std::variant<std::vector<CpuList>, std::string> bind_cpus(const CpuBindRequest& request) {
    std::vector<CpuList> bound(static_cast<std::size_t>(request.workers));
    if (request.bind == CpuBind::none || request.cpus.empty() || bound.empty()) return bound;
    const std::vector<CpuPlace> cpus = by_nearness(request.cpus);
    const std::vector<Seat> seats = seats_of(request, cpus);
    // Without GPUs no worker has a node of its own, and equal parts matter more than whole nodes.
    const bool evenly =
        std::none_of(seats.begin(), seats.end(), [](const Seat& seat) { return seat.by_gpu; });
    for (std::size_t i = 0; i < bound.size(); ++i) {
        const Seat& seat = seats[i];
        const std::vector<CpuPlace> near = of_node(cpus, seat.node);
        const std::vector<CpuPlace>& room = evenly ? cpus : near;
        const int place = evenly ? static_cast<int>(i) : seat.place;
        const int peers = evenly ? static_cast<int>(seats.size()) : seat.peers;
        switch (request.bind) {
            case CpuBind::none: break;
            case CpuBind::numa: bound[i] = numbers(near); break;
            case CpuBind::socket: bound[i] = socket_of_node(cpus, seat.node); break;
            case CpuBind::core_complex: bound[i] = core_complex(near, seat); break;
            case CpuBind::exclusive:
                if (static_cast<int>(grouped(room, &CpuPlace::core).size()) < peers)
                    return too_few_cores(
                        room, evenly ? "on this node" : fmt::format("near NUMA node {}", seat.node), peers);
                [[fallthrough]];
            case CpuBind::cores: bound[i] = share_cores(room, place, peers); break;
        }
    }
    return bound;
}

int omp_threads(int usable, int local_workers) { return std::max(1, usable / std::max(1, local_workers)); }

std::vector<int> threads_of(const std::vector<CpuList>& bound, int usable) {
    const int workers = static_cast<int>(bound.size());
    std::map<int, int> users;
    for (const CpuList& cpus : bound) {
        for (const int cpu : cpus) ++users[cpu];
    }
    const double paid =
        users.empty() ? 1 : std::min(1.0, static_cast<double>(usable) / static_cast<double>(users.size()));
    std::vector<int> threads;
    for (const CpuList& cpus : bound) {
        // It is summed by the number of users, so that whole CPUs stay whole numbers.
        std::map<int, int> shared_by;
        for (const int cpu : cpus) ++shared_by[users[cpu]];
        double own = 0;
        for (const auto& [sharers, count] : shared_by) own += static_cast<double>(count) / sharers;
        threads.push_back(cpus.empty() ? omp_threads(usable, workers)
                                       : std::max(1, static_cast<int>(own * paid)));
    }
    return threads;
}

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

// Returns the one node that its CPUs are of, where there are others. The kernel takes the memory near a CPU
// that asks for it anyway; a policy keeps that so when the scheduler or another process gets in between.
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

}  // namespace launch
}  // namespace ddprun
