#include "launcher/plan/cpu_binding.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace ddprun::inline launch {
namespace {

using Groups = std::vector<CpuList>;  // of CPUs that are handed out together

// Somebody who is given CPUs: a GPU that a worker may use, or a worker.
struct Seat {
    bool by_gpu = false;  // `node` is its GPU's
    int node = 0;
    int place = 0;  // among the seats of its NUMA node …
    int peers = 0;  // … which are so many
};

std::vector<CpuPlace> by_nearness(std::vector<CpuPlace> cpus) {
    std::sort(cpus.begin(), cpus.end(), [](const CpuPlace& a, const CpuPlace& b) {
        return std::tie(a.node, a.cache, a.core, a.cpu) < std::tie(b.node, b.cache, b.core, b.cpu);
    });
    return cpus;
}

// One group for each value of the member, in order of first appearance.
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

// The part of the groups that is this place's, the first ones one larger where they cannot be equal. Where they do not
// suffice, several have the same.
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

// By core, else by hardware thread.
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
        // Summed by the number of users, so that whole CPUs stay whole numbers.
        std::map<int, int> shared_by;
        for (const int cpu : cpus) ++shared_by[users[cpu]];
        double own = 0;
        for (const auto& [sharers, count] : shared_by) own += static_cast<double>(count) / sharers;
        threads.push_back(cpus.empty() ? omp_threads(usable, workers)
                                       : std::max(1, static_cast<int>(own * paid)));
    }
    return threads;
}

}  // namespace ddprun::inline launch
