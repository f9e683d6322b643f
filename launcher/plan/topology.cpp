#include "launcher/plan/topology.hpp"

#include <dirent.h>
#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/number_text.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

// A list of all CPUs with gaps everywhere takes more than a page; nothing else that is read here takes as
// much.
constexpr std::size_t kMaxSystemFile = 256 * 1024;
constexpr int kUnknown = -1;
// The deepest hierarchy of caches has four levels, of which the first has two kinds.
constexpr int kMaxCaches = 16;

std::optional<std::string> line_in(const fs::path& path) {
    auto text = read_small_file(path, kMaxSystemFile);
    if (!text.has_value()) return std::nullopt;
    while (text->ends_with('\n')) text->pop_back();
    return std::optional(std::move(*text));
}

std::string text_in(const fs::path& path) { return line_in(path).value_or(""); }

std::vector<std::string> names_in(const fs::path& folder, std::string_view beginning = {}) {
    // /dev has hundreds, and a path made of each costs more than all else that is looked at before a start.
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), &::closedir);
    std::vector<std::string> names;
    while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
        const std::string_view name = entry->d_name;
        if (name.starts_with(beginning) && name != "." && name != "..") names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::optional<int> number_in(const fs::path& path) {
    const auto line = line_in(path);
    return line ? whole_number<int>(*line, -1) : std::nullopt;
}

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

namespace {

// Two devices are near in such steps: unknown, on the same NUMA node, or so many bridges in common.
constexpr std::size_t kSameNode = 1;

std::size_t nearness(const PciPlace& a, const PciPlace& b) {
    const auto common = static_cast<std::size_t>(
        std::mismatch(a.path.begin(), a.path.end(), b.path.begin(), b.path.end()).first - a.path.begin());
    // The root complex alone says nothing: a virtual machine has all devices at one.
    if (common > 1) return kSameNode + common;
    return a.node >= 0 && a.node == b.node ? kSameNode : 0;
}

bool has_port_up(const fs::path& nic) {
    bool knows = false;
    for (const std::string& port : names_in(nic / "ports")) {
        const auto state = line_in(nic / "ports" / port / "state");
        if (!state) continue;
        knows = true;
        if (state->find("ACTIVE") != std::string::npos) return true;
    }
    return !knows;
}

// mlx5_2 comes before mlx5_10.
bool is_first_of_nics(const Nic& a, const Nic& b) {
    return std::pair(a.name.size(), std::string_view(a.name)) <
           std::pair(b.name.size(), std::string_view(b.name));
}

}  // namespace

std::optional<PciPlace> read_pci_place(const fs::path& device) {
    std::error_code error;
    const fs::path folder = fs::canonical(device, error);
    if (error) return std::nullopt;
    PciPlace place;
    for (const fs::path& part : folder) {
        if (!place.path.empty() || part.string().starts_with("pci")) place.path.push_back(part.string());
    }
    if (place.path.size() < 2) return std::nullopt;
    place.address = place.path.back();
    place.node = number_in(folder / "numa_node").value_or(-1);
    return place;
}

std::vector<Nic> find_nics(const fs::path& root) {
    std::vector<Nic> nics;
    const fs::path folder = root / "sys/class/infiniband";
    for (std::string& name : names_in(folder)) {
        auto place = read_pci_place(folder / name / "device");
        if (place && has_port_up(folder / name)) nics.push_back({std::move(name), *std::move(place)});
    }
    std::sort(nics.begin(), nics.end(), is_first_of_nics);
    return nics;
}

std::vector<std::string> nearest_nics(const std::vector<std::optional<PciPlace>>& gpus,
                                      const std::vector<Nic>& nics) {
    std::vector<std::string> names;
    std::map<std::vector<std::size_t>, std::size_t> turns;
    for (const auto& gpu : gpus) {
        std::vector<std::size_t> best;
        std::size_t most = 0;
        for (std::size_t i = 0; gpu && i < nics.size(); ++i) {
            const std::size_t near = nearness(*gpu, nics[i].place);
            if (near > most) best.clear();
            most = std::max(most, near);
            if (near == most) best.push_back(i);
        }
        const bool is_known = gpu && !best.empty() && (most > 0 || nics.size() == 1);
        names.push_back(is_known ? nics[best[turns[best]++ % best.size()]].name : "");
    }
    return names;
}

namespace {

constexpr int kMaxGpuNumber = 100'000;
// A processor's own graphics have less memory of their own: nobody computes there, and jobs for CPUs have
// more workers.
constexpr std::uint64_t kLeastMemory = std::uint64_t{4} << 30;

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

std::optional<PciPlace> pci_place(const fs::path& root, const std::string& address) {
    return read_pci_place(root / "sys/bus/pci/devices" / address);
}

// It takes those of the driver's list whose device file is here; a container has that of some only.
NodeGpus nvidia_gpus(const fs::path& root) {
    std::set<std::string> files;
    for (const std::string& name : names_in(root / "dev", "nvidia")) {
        if (is_gpu_file(name)) files.insert(name);
    }
    NodeGpus found{GpuVendor::nvidia, {}, (root / "dev/nvidia*").string()};
    std::set<std::string> models;
    const fs::path driver = root / "proc/driver/nvidia/gpus";
    for (const std::string& address : names_in(driver)) {
        const std::string text = text_in(driver / address / "information");
        if (!files.contains("nvidia" + value_of(text, "Device Minor"))) continue;
        models.insert(value_of(text, "Model"));
        found.gpus.push_back({pci_place(root, address), value_of(text, "GPU UUID")});
    }
    found.is_alike = models.size() <= 1;
    // A device that the driver does not list makes every number doubtful.
    if (found.gpus.size() != files.size()) found.gpus = std::vector<Gpu>(files.size());
    // Of a card in parts a program sees one, unless it is told which; the launcher cannot know their names.
    const fs::path capabilities = root / "proc/driver/nvidia/capabilities";
    const auto is_in_parts = [&](const std::string& gpu) {
        const auto parts = names_in(capabilities / gpu / "mig");
        return std::any_of(parts.begin(), parts.end(),
                           [](const std::string& name) { return name.starts_with("gi"); });
    };
    const auto cards = names_in(capabilities);
    if (std::any_of(cards.begin(), cards.end(), is_in_parts))
        found.source += ", in parts by MIG, which CUDA_VISIBLE_DEVICES=MIG-…,MIG-… names";
    return found;
}

bool is_for_display(const fs::path& root, const std::string& address) {
    const fs::path device = root / "sys/bus/pci/devices" / address;
    const auto memory = whole_number<std::uint64_t>(text_in(device / "mem_info_vram_total"));
    return memory && *memory < kLeastMemory;
}

// The runtime counts the nodes of its topology that compute and are no CPU.
std::vector<Gpu> amd_gpus(const fs::path& root) {
    if (!is_there(root / "dev/kfd")) return {};
    const fs::path nodes = root / "sys/class/kfd/kfd/topology/nodes";
    std::map<int, Gpu> by_number;
    bool computes = false;
    for (const std::string& name : names_in(nodes)) {
        const auto number = whole_number<int>(name, 0, kMaxGpuNumber);
        // A GPU that a container may not use cannot be read.
        const std::string text = text_in(nodes / name / "properties");
        const auto units = whole_number<int>(value_of(text, "simd_count"), 0);
        const auto location = whole_number<unsigned>(value_of(text, "location_id"));
        if (!number || units.value_or(0) == 0 || value_of(text, "cpu_cores_count") != "0" || !location)
            continue;
        const unsigned domain = whole_number<unsigned>(value_of(text, "domain")).value_or(0);
        const std::string address = fmt::format("{:04x}:{:02x}:{:02x}.{}", domain, *location >> 8 & 0xff,
                                                *location >> 3 & 0x1f, *location & 0x7);
        const auto id = whole_number<std::uint64_t>(value_of(text, "unique_id")).value_or(0);
        computes = computes || !is_for_display(root, address);
        by_number[*number] = {pci_place(root, address), id == 0 ? "" : fmt::format("GPU-{:016x}", id)};
    }
    std::vector<Gpu> gpus;
    if (!computes) return gpus;
    for (auto& [number, gpu] : by_number) gpus.push_back(std::move(gpu));
    return gpus;
}

// Two drivers tell in different places.
int tiles_of(const fs::path& device) {
    const auto count = [](const fs::path& folder, std::string_view prefix) {
        const auto names = names_in(folder);
        return static_cast<int>(std::count_if(names.begin(), names.end(), [prefix](const std::string& name) {
            return name.starts_with(prefix) && whole_number<int>(name.substr(prefix.size()), 0);
        }));
    };
    int tiles = count(device, "tile");
    for (const std::string& card : names_in(device / "drm"))
        tiles = std::max(tiles, count(device / "drm" / card / "gt", "gt"));
    return tiles;
}

std::vector<Gpu> intel_gpus(const fs::path& root) {
    constexpr std::string_view kIntel = "0x8086", kNoDisplay = "0x0380";
    if (!is_there(root / "dev/dri")) return {};
    std::vector<Gpu> gpus;
    const fs::path devices = root / "sys/bus/pci/devices";
    for (const std::string& address : names_in(devices)) {
        if (!text_in(devices / address / "class").starts_with(kNoDisplay)) continue;
        if (!text_in(devices / address / "vendor").starts_with(kIntel)) continue;
        gpus.push_back({pci_place(root, address), "", tiles_of(devices / address)});
    }
    return gpus;
}

// NVIDIA's driver is elsewhere on some platforms, with one device as a rule.
NodeGpus other_gpus(const fs::path& root) {
    for (const char* file : {"dev/dxg", "dev/nvhost-gpu", "dev/nvgpu"}) {
        if (is_there(root / file))
            return {GpuVendor::nvidia, std::vector<Gpu>(1), (root / file).string(), true,
                    "the GPUs behind that file"};
    }
    return {GpuVendor::nvidia, {}, (root / "dev/nvidia*").string()};
}

}  // namespace

bool is_gpu_file(std::string_view name) {
    constexpr std::string_view kPrefix = "nvidia";
    if (!name.starts_with(kPrefix)) return false;
    return whole_number<int>(name.substr(kPrefix.size()), 0, kMaxGpuNumber).has_value();
}

std::string value_of(std::string_view text, std::string_view name) {
    for (std::string_view line : lines_of(text)) {
        if (!line.starts_with(name)) continue;
        line.remove_prefix(name.size());
        if (line.starts_with(':')) line.remove_prefix(1);
        if (!line.starts_with(' ') && !line.starts_with('\t')) continue;
        return std::string(trimmed(line));
    }
    return {};
}

NodeGpus find_gpus(const fs::path& root) {
    NodeGpus found = nvidia_gpus(root);
    if (!found.gpus.empty()) return found;
    if (auto gpus = amd_gpus(root); !gpus.empty())
        return {GpuVendor::amd, std::move(gpus), (root / "dev/kfd").string()};
    if (auto gpus = intel_gpus(root); !gpus.empty())
        return {GpuVendor::intel, std::move(gpus), (root / "dev/dri").string()};
    return other_gpus(root);
}

std::optional<std::string> parse_driver_version(std::string_view text) {
    const auto begin = text.find("NVRM version:");
    if (begin == std::string_view::npos) return std::nullopt;
    std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    // The first word of digits and dots; "x86_64" before it is none.
    while (!line.empty()) {
        const std::string_view word = line.substr(0, line.find(' '));
        const bool digits = word.find_first_not_of("0123456789.") == std::string_view::npos;
        if (digits && word.find('.') != std::string_view::npos) return std::string(word);
        line.remove_prefix(std::min(line.size(), word.size() + 1));
    }
    return std::nullopt;
}

std::optional<std::string> parse_gpu_model(std::string_view text) {
    for (const std::string_view line : lines_of(text)) {
        if (!line.starts_with("Model:")) continue;
        const auto begin = line.find_first_not_of(" \t", line.find(':') + 1);
        if (begin == std::string_view::npos) return std::nullopt;
        return std::string(line.substr(begin, line.find_last_not_of(" \t") - begin + 1));
    }
    return std::nullopt;
}

std::optional<CpuList> parse_cpu_list(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    CpuList cpus;
    if (trimmed(text).empty()) return cpus;
    const auto set = parse_number_set(text, 0, kMaxCpus - 1, Blanks::around_entries);
    const auto* spans = std::get_if<std::vector<NumberSpan>>(&set);
    if (spans == nullptr) return std::nullopt;
    for (const NumberSpan& span : *spans) {
        for (int cpu = span.first; cpu <= span.last; ++cpu) cpus.push_back(cpu);
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

std::string cpu_list_text(const CpuList& cpus) { return number_set_text(spans_of(cpus)); }

CpuList common_cpus(const CpuList& one, const CpuList& other) {
    CpuList both;
    std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
    return both;
}

}  // namespace launch
}  // namespace ddprun
