#include "launcher/plan/topology.hpp"

#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/plan/system_files.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr int kUnknown = -1;
// The deepest hierarchy of caches has four levels, of which the first has two kinds.
constexpr int kMaxCaches = 16;

std::optional<CpuList> read_list(const fs::path& path) {
    const auto line = line_in(path);
    return line ? parse_cpu_list(*line) : std::nullopt;
}

// Reads the number behind the word that a folder's name begins with.
std::optional<int> number_behind(std::string_view name, std::string_view word) {
    if (!name.starts_with(word)) return std::nullopt;
    return whole_number<int>(name.substr(word.size()), 0, kMaxCpus - 1);
}

std::map<int, int> read_nodes(const fs::path& system) {
    std::map<int, int> node_of;
    for (const std::string& name : names_in(system / "node")) {
        const auto node = number_behind(name, "node");
        const auto cpus = node ? read_list(system / "node" / name / "cpulist") : std::nullopt;
        for (const int cpu : cpus.value_or(CpuList{})) node_of[cpu] = *node;
    }
    return node_of;
}

// Finds the CPUs that share this one's cache of the highest level; instructions have caches of their own.
std::optional<CpuList> read_last_cache(const fs::path& cpu) {
    std::optional<CpuList> sharing;
    int highest = 0;
    for (int index = 0; index < kMaxCaches; ++index) {
        const fs::path cache = cpu / "cache" / fmt::format("index{}", index);
        const auto level = number_in(cache / "level");
        if (!level) break;
        if (*level <= highest || line_in(cache / "type") == "Instruction") continue;
        if (auto list = read_list(cache / "shared_cpu_list"); list && !list->empty()) {
            highest = *level;
            sharing = std::move(list);
        }
    }
    return sharing;
}

// Returns the lowest CPU of the group that `read` finds for this one; known already if another one of it was
// asked before.
template <class Read>
int group_of(int cpu, std::map<int, int>& known, Read read) {
    if (const auto found = known.find(cpu); found != known.end()) return found->second;
    const std::optional<CpuList> group = read();
    if (!group || group->empty()) return kUnknown;
    for (const int member : *group) known[member] = group->front();
    return group->front();
}

CpuList read_memory_nodes(const fs::path& root) {
    constexpr std::string_view kName = "Mems_allowed_list:";
    const CpuList nodes = read_list(root / "sys/devices/system/node/has_memory").value_or(CpuList{});
    const auto status = read_small_file(root / "proc/self/status", kMaxSystemFile);
    if (!status.has_value()) return nodes;
    for (const std::string_view line : lines_of(*status)) {
        if (line.starts_with(kName))
            return common_cpus(nodes, parse_cpu_list(trimmed(line.substr(kName.size()))).value_or(nodes));
    }
    return nodes;
}

}  // namespace

CpuList Topology::nodes_of(const CpuList& some_cpus) const {
    CpuList nodes;
    for (const CpuPlace& place : cpus) {
        if (std::binary_search(some_cpus.begin(), some_cpus.end(), place.cpu)) nodes.push_back(place.node);
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
}

Topology read_topology(const CpuList& allowed, const fs::path& root) {
    const fs::path system = root / "sys/devices/system";
    Topology topology{.cpus = {}, .memory_nodes = read_memory_nodes(root)};
    const std::map<int, int> node_of = read_nodes(system);
    std::map<int, int> cores, caches, first_of_node;
    for (const auto& [cpu, node] : node_of) first_of_node.try_emplace(node, cpu);
    for (const int cpu : allowed) {
        const fs::path folder = system / "cpu" / fmt::format("cpu{}", cpu);
        CpuPlace place{.cpu = cpu};
        if (const auto node = node_of.find(cpu); node != node_of.end()) place.node = node->second;
        place.socket = std::max(number_in(folder / "topology/physical_package_id").value_or(0), 0);
        place.core =
            group_of(cpu, cores, [&folder] { return read_list(folder / "topology/thread_siblings_list"); });
        if (place.core == kUnknown) place.core = cpu;
        place.cache = group_of(cpu, caches, [&folder] { return read_last_cache(folder); });
        if (place.cache == kUnknown)
            place.cache = first_of_node.try_emplace(place.node, allowed.front()).first->second;
        topology.cpus.push_back(place);
    }
    return topology;
}

std::string memory_policy_refusal() {
    // A policy that does not exist: whoever may choose one hears of that, and nothing changes.
    constexpr int kNoPolicy = 0x3fff;
    if (::syscall(SYS_set_mempolicy, kNoPolicy, nullptr, 0) == 0 || errno == EINVAL) return {};
    return std::strerror(errno);
}

}  // namespace launch
}  // namespace ddprun
