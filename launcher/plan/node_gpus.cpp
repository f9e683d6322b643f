#include "launcher/plan/node_gpus.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDeviceFile = 64 * 1024;
constexpr int kMaxGpuNumber = 100'000;
// A processor's own graphics have less memory of their own: nobody computes there, and jobs for CPUs have more workers.
constexpr std::uint64_t kLeastMemory = std::uint64_t{4} << 30;

std::string read_gpu_text(const fs::path& path) {
    auto text = read_small_file(path, kMaxDeviceFile);
    return text.has_value() ? *std::move(text) : std::string();
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
        names.push_back(entry->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::optional<PciPlace> pci_place(const fs::path& root, const std::string& address) {
    return read_pci_place(root / "sys/bus/pci/devices" / address);
}

// Those of the driver's list whose device file is here; a container has that of some only.
NodeGpus nvidia_gpus(const fs::path& root) {
    std::set<std::string> files;
    for (const std::string& name : names_in(root / "dev")) {
        if (is_gpu_file(name)) files.insert(name);
    }
    NodeGpus found{GpuVendor::nvidia, {}, (root / "dev/nvidia*").string()};
    std::set<std::string> models;
    const fs::path driver = root / "proc/driver/nvidia/gpus";
    for (const std::string& address : names_in(driver)) {
        const std::string text = read_gpu_text(driver / address / "information");
        if (!files.contains("nvidia" + value_of(text, "Device Minor"))) continue;
        models.insert(value_of(text, "Model"));
        found.gpus.push_back({pci_place(root, address), value_of(text, "GPU UUID")});
    }
    found.is_alike = models.size() <= 1;
    // A device that the driver does not list makes every number doubtful.
    if (found.gpus.size() != files.size()) found.gpus = std::vector<Gpu>(files.size());
    return found;
}

bool is_for_display(const fs::path& root, const std::string& address) {
    std::string text = read_gpu_text(root / "sys/bus/pci/devices" / address / "mem_info_vram_total");
    while (text.ends_with('\n')) text.pop_back();
    const auto memory = whole_number<std::uint64_t>(text);
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
        // What a container may not use cannot be read.
        const std::string text = read_gpu_text(nodes / name / "properties");
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

std::vector<Gpu> intel_gpus(const fs::path& root) {
    constexpr std::string_view kIntel = "0x8086", kNoDisplay = "0x0380";
    if (!is_there(root / "dev/dri")) return {};
    std::vector<Gpu> gpus;
    const fs::path devices = root / "sys/bus/pci/devices";
    for (const std::string& address : names_in(devices)) {
        if (!read_gpu_text(devices / address / "class").starts_with(kNoDisplay)) continue;
        if (!read_gpu_text(devices / address / "vendor").starts_with(kIntel)) continue;
        gpus.push_back({pci_place(root, address), ""});
    }
    return gpus;
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
    return found;
}

}  // namespace ddprun::inline launch
