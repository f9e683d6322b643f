#include "launcher/plan/device_binding.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr const char* kCuda = "CUDA_VISIBLE_DEVICES";
constexpr const char* kHip = "HIP_VISIBLE_DEVICES";
constexpr const char* kRocr = "ROCR_VISIBLE_DEVICES";
constexpr const char* kLevelZero = "ZE_AFFINITY_MASK";

struct Mask {
    std::string variable;
    std::optional<std::string> value;

    std::string text() const { return fmt::format("{}={}", variable, value.value_or("")); }
};

Mask find_mask(const Environment& environment, const char* variable) {
    const std::string* value = find_variable(environment, variable);
    return {variable, value == nullptr ? std::nullopt : std::optional(*value)};
}

std::optional<std::size_t> as_index(std::string_view entry) { return whole_number<std::size_t>(entry, 0); }

bool names_device(std::string_view entry, GpuVendor vendor) {
    if (as_index(entry)) return true;
    const auto dot = entry.find('.');
    if (vendor == GpuVendor::intel)
        return dot != entry.npos && as_index(entry.substr(0, dot)) && as_index(entry.substr(dot + 1));
    return entry.starts_with("GPU-") || (vendor == GpuVendor::nvidia && entry.starts_with("MIG-"));
}

// 00 and 0 are one device, as are 00.1 and 0.1.
std::string without_zeros(std::string_view entry) {
    const auto dot = entry.find('.');
    const auto index = as_index(entry.substr(0, dot));
    if (!index) return std::string(entry);
    const auto tile = dot == entry.npos ? std::nullopt : as_index(entry.substr(dot + 1));
    return tile ? fmt::format("{}.{}", *index, *tile) : std::to_string(*index);
}

// A name may be cut short, as long as it is one device's.
std::optional<PciPlace> place_by_name(std::string_view name, const std::vector<Gpu>& gpus) {
    constexpr std::string_view kPart = "MIG-";  // MIG-GPU-<uuid>/1/0 is a part of that GPU
    if (name.starts_with(kPart)) name = name.substr(kPart.size(), name.find('/') - kPart.size());
    std::optional<PciPlace> place;
    for (const Gpu& gpu : gpus) {
        if (!name.starts_with("GPU-") || !gpu.uuid.starts_with(name)) continue;
        if (place) return std::nullopt;
        place = gpu.place;
    }
    return place;
}

// Returns what a mask leaves of devices that are counted from 0.
std::vector<VisibleGpu> behind(const std::vector<std::string>& entries,
                               const std::vector<VisibleGpu>& counted, const std::vector<Gpu>& gpus) {
    std::vector<VisibleGpu> visible;
    for (const std::string& entry : entries) {
        const auto index = as_index(entry.substr(0, entry.find('.')));
        const bool is_known = index && *index < counted.size();
        visible.push_back({entry, is_known ? counted[*index].place : place_by_name(entry, gpus), entry});
    }
    return visible;
}

// Finds the first index for which there is no device.
std::optional<std::string> beyond(const std::vector<std::string>& entries, std::size_t count) {
    const auto found = std::find_if(entries.begin(), entries.end(), [count](const std::string& entry) {
        const auto index = as_index(entry);
        return index && *index >= count;
    });
    return found == entries.end() ? std::nullopt : std::optional(*found);
}

std::string remark_on(const Mask& mask, const std::vector<std::string>& entries, const NodeGpus& node) {
    const auto missing = node.gpus.empty() ? std::nullopt : beyond(entries, node.gpus.size());
    if (!missing) return {};
    return fmt::format("{} names GPU {}, but this node has {} ({}), counted from 0", mask.text(), *missing,
                       node.gpus.size(), node.source);
}

// A list with a device in it twice is none to most drivers: they show no device then. Intel's shows it once.
std::string refuse_repeated(const Mask& mask, const std::vector<std::string>& entries,
                            const std::vector<Gpu>& gpus) {
    const char* effect =
        mask.variable == kLevelZero ? "which is one GPU" : "so that programs would see no GPU";
    for (auto one = entries.begin(); one != entries.end(); ++one) {
        // Of parts of one GPU (MIG-GPU-…) there may be several.
        const auto place = one->starts_with("GPU-") ? place_by_name(*one, gpus) : std::nullopt;
        const bool is_repeated = std::any_of(entries.begin(), one, [&](const std::string& earlier) {
            if (earlier == *one) return true;
            return place && !place->address.empty() && earlier.starts_with("GPU-") &&
                   place_by_name(earlier, gpus) == place;
        });
        if (is_repeated) return fmt::format("{} names {} twice, {}", mask.text(), *one, effect);
    }
    return {};
}

std::vector<VisibleGpu> all_of(const std::vector<Gpu>& gpus) {
    std::vector<VisibleGpu> visible;
    for (const Gpu& gpu : gpus) {
        const std::string index = std::to_string(visible.size());
        visible.push_back({index, gpu.place, index});
    }
    return visible;
}

// The inner variable counts anew, from 0, what ROCR_VISIBLE_DEVICES leaves.
void count_anew(std::vector<VisibleGpu>& gpus) {
    for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].entry = std::to_string(i);
}

// People know these by what the outer mask calls them.
void name_as_outside(std::vector<VisibleGpu>& gpus, const std::vector<VisibleGpu>& outer) {
    for (VisibleGpu& gpu : gpus) {
        const auto index = as_index(gpu.entry);
        if (index && *index < outer.size()) gpu.name = outer[*index].name;
    }
}

NodeDevices devices_of(std::vector<VisibleGpu> visible, const Mask& mask, std::string source) {
    NodeDevices devices;
    devices.mask = mask.value;
    devices.count = static_cast<int>(visible.size());
    devices.source = std::move(source);
    devices.variable = mask.variable;
    devices.gpus = std::move(visible);
    return devices;
}

// Finds the devices where one variable says it all.
NodeDevices by_one_mask(const Mask& mask, const NodeGpus& node, GpuVendor vendor, bool order_known) {
    std::vector<VisibleGpu> counted = all_of(node.gpus);
    if (!order_known) {
        for (VisibleGpu& gpu : counted) gpu.place.reset();
    }
    if (!mask.value) {
        NodeDevices devices = devices_of(std::move(counted), mask, node.source);
        devices.uncounted = node.uncounted;
        return devices;
    }
    const auto entries = mask_entries(*mask.value, vendor);
    NodeDevices devices = devices_of(behind(entries, counted, node.gpus), mask, mask.text());
    devices.contradiction = refuse_repeated(mask, entries, node.gpus);
    // Intel's tiles may be counted in place of devices.
    if (vendor != GpuVendor::intel) devices.remark = remark_on(mask, entries, node);
    return devices;
}

// Level Zero's devices are the tiles, in the order of their cards; with COMPOSITE the cards.
NodeDevices intel_devices(const Environment& environment, NodeGpus node) {
    const std::string* hierarchy = find_variable(environment, "ZE_FLAT_DEVICE_HIERARCHY");
    if (hierarchy == nullptr || *hierarchy != "COMPOSITE") {
        std::vector<Gpu> tiles;
        for (const Gpu& gpu : node.gpus) {
            if (gpu.tiles == 0) node.uncounted = "the tiles of its cards, each of which is a device,";
            tiles.insert(tiles.end(), static_cast<std::size_t>(std::max(1, gpu.tiles)), gpu);
        }
        node.gpus = std::move(tiles);
    }
    return by_one_mask(find_mask(environment, kLevelZero), node, GpuVendor::intel, true);
}

NodeDevices amd_devices(const Environment& environment, const NodeGpus& node) {
    const Mask rocr = find_mask(environment, kRocr);
    Mask hip = find_mask(environment, kHip), cuda = find_mask(environment, kCuda);
    for (Mask* mask : {&hip, &cuda}) {
        if (mask->value && mask->value->empty()) mask->value.reset();
    }
    std::vector<VisibleGpu> base = all_of(node.gpus);
    std::string source = node.source, remark, repeated;
    if (rocr.value) {
        const auto entries = mask_entries(*rocr.value, GpuVendor::amd);
        base = behind(entries, base, node.gpus);
        count_anew(base);
        source = rocr.text();
        remark = remark_on(rocr, entries, node);
        repeated = refuse_repeated(rocr, entries, node.gpus);
    }
    const Mask& inner = hip.value || !cuda.value ? hip : cuda;
    if (!inner.value) {
        NodeDevices devices = devices_of(std::move(base), inner, std::move(source));
        devices.remark = std::move(remark);
        devices.contradiction = std::move(repeated);
        return devices;
    }
    const auto entries = mask_entries(*inner.value, GpuVendor::amd);
    std::vector<VisibleGpu> visible = behind(entries, base, node.gpus);
    name_as_outside(visible, base);
    NodeDevices devices = devices_of(std::move(visible), inner, inner.text());
    devices.remark = rocr.value ? std::move(remark) : remark_on(inner, entries, node);
    devices.contradiction =
        repeated.empty() ? refuse_repeated(inner, entries, node.gpus) : std::move(repeated);
    const auto missing = rocr.value ? beyond(entries, base.size()) : std::nullopt;
    if (missing)
        devices.contradiction =
            fmt::format("{} names device {} of the {} that {} leaves, which are counted anew from 0",
                        inner.text(), *missing, base.size(), rocr.text());
    if (hip.value && cuda.value && entries != mask_entries(*cuda.value, GpuVendor::amd))
        devices.contradiction =
            fmt::format("{} contradicts {}; on AMD's GPUs both mean the same", hip.text(), cuda.text());
    return devices;
}

GpuVendor vendor_of(const Environment& environment, const NodeGpus& node) {
    if (!node.gpus.empty()) return node.vendor;
    const auto is_set = [&](const char* name) { return find_variable(environment, name) != nullptr; };
    if (is_set(kHip) || is_set(kRocr)) return GpuVendor::amd;
    return is_set(kLevelZero) && !is_set(kCuda) ? GpuVendor::intel : GpuVendor::nvidia;
}

}  // namespace

std::vector<std::string> mask_entries(std::string_view mask, GpuVendor vendor) {
    std::vector<std::string> entries;
    for (;;) {
        const auto comma = mask.find(',');
        const std::string_view entry = trimmed(mask.substr(0, comma));
        if (!names_device(entry, vendor)) return entries;
        entries.push_back(without_zeros(entry));
        if (comma == std::string_view::npos) return entries;
        mask.remove_prefix(comma + 1);
    }
}

NodeDevices find_devices(const Environment& environment, const NodeGpus& node) {
    const std::string* order = find_variable(environment, "CUDA_DEVICE_ORDER");
    const bool by_address = order != nullptr && *order == "PCI_BUS_ID";
    const GpuVendor vendor = vendor_of(environment, node);
    NodeDevices devices;
    switch (vendor) {
        case GpuVendor::amd: devices = amd_devices(environment, node); break;
        case GpuVendor::intel: devices = intel_devices(environment, node); break;
        case GpuVendor::nvidia:
            devices = by_one_mask(find_mask(environment, kCuda), node, vendor, node.is_alike || by_address);
            break;
    }
    devices.vendor = vendor;
    return devices;
}

namespace {

constexpr const char* kNone = "--gpu-bind none leaves the devices to the program";

const char* plural(int count) { return count == 1 ? "" : "s"; }

// An inherited mask is that list already. Intel's are counted otherwise by programs that choose another
// hierarchy themselves.
std::optional<std::string> list_of_all(const NodeDevices& devices) {
    if (devices.mask || devices.vendor == GpuVendor::intel || !devices.uncounted.empty()) return std::nullopt;
    std::string list;
    for (const VisibleGpu& gpu : devices.gpus) list += (list.empty() ? "" : ",") + gpu.entry;
    return list;
}

// If it was asked for, it is no advice to let it be.
bool is_asked_for(const BindingRequest& request) { return request.bind == GpuBind::single; }

std::string refusal(const BindingRequest& request) {
    const int workers = request.local_workers;
    const NodeDevices& devices = request.devices;
    return fmt::format("{} worker{} ({}) but {} GPU{} ({}); --share-gpus lets workers share{}", workers,
                       plural(workers), request.workers_source, devices.count, plural(devices.count),
                       devices.source, is_asked_for(request) ? "" : fmt::format(", {}", kNone));
}

}  // namespace

NodeDevices with_uncounted(NodeDevices devices, int workers) {
    if (devices.uncounted.empty() || devices.count == 0 || workers <= devices.count) return devices;
    // Which of them the counted ones are is not known either.
    for (VisibleGpu& gpu : devices.gpus) gpu.place.reset();
    for (; devices.count < workers; ++devices.count)
        devices.gpus.push_back({std::to_string(devices.count), {}, std::to_string(devices.count)});
    return devices;
}

std::optional<GpuBind> parse_gpu_bind(std::string_view text) {
    if (text == "auto") return GpuBind::automatic;
    if (text == "single") return GpuBind::single;
    if (text == "all") return GpuBind::all;
    if (text == "none") return GpuBind::none;
    return std::nullopt;
}

std::optional<int> device_of(const BindingRequest& request, int local_rank) {
    if (request.bind == GpuBind::none || request.devices.count == 0) return std::nullopt;
    return local_rank % request.devices.count;
}

std::string refuse_devices(const BindingRequest& request) {
    const int count = request.devices.count;
    if (request.bind == GpuBind::none) return {};
    if (const std::string& wrong = request.devices.contradiction; !wrong.empty())
        return is_asked_for(request) ? wrong : fmt::format("{}; {}", wrong, kNone);
    const bool are_too_few = count > 0 && request.local_workers > count;
    return are_too_few && !request.share_gpus ? refusal(request) : "";
}

GpuBind bind_of(GpuBind bind, ProgramKind kind) {
    if (bind != GpuBind::automatic) return bind;
    return kind == ProgramKind::native ? GpuBind::single : GpuBind::all;
}

DeviceBinding bind_device(const BindingRequest& request, ProgramKind kind, int local_rank) {
    const auto device = device_of(request, local_rank);
    if (!device) return {};
    if (bind_of(request.bind, kind) == GpuBind::all)
        return {.mask = list_of_all(request.devices), .ddprun_device = std::to_string(*device)};
    return {.mask = request.devices.gpus.at(static_cast<std::size_t>(*device)).entry, .ddprun_device = "0"};
}

}  // namespace launch
}  // namespace ddprun
