#include "launcher/plan/gpus.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "launcher/harmless_text.hpp"
#include "launcher/plan/system_files.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& path) { return line_in(path).value_or(""); }

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

}  // namespace launch
}  // namespace ddprun
