#include "launcher/plan/device_binding.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/list_text.hpp"

namespace ddprun {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool names_device(std::string_view entry) {
    if (entry.empty()) return false;
    return std::all_of(entry.begin(), entry.end(), is_digit) || entry.starts_with("GPU-") ||
           entry.starts_with("MIG-");
}

const char* plural(int count) { return count == 1 ? "" : "s"; }

std::string refusal(const BindingRequest& request) {
    const int workers = request.local_workers;
    const NodeDevices& devices = request.devices;
    return fmt::format(
        "{} worker{} ({}) but {} GPU{} ({}); --share-gpus lets workers share, --gpu-bind none "
        "leaves the devices to the program",
        workers, plural(workers), request.workers_source, devices.count, plural(devices.count),
        devices.source);
}

}  // namespace

std::optional<GpuBind> parse_gpu_bind(std::string_view text) {
    if (text == "auto") return GpuBind::automatic;
    if (text == "single") return GpuBind::single;
    if (text == "all") return GpuBind::all;
    if (text == "none") return GpuBind::none;
    return std::nullopt;
}

std::vector<std::string> mask_entries(std::string_view mask) {
    std::vector<std::string> entries;
    for (;;) {
        const auto comma = mask.find(',');
        const std::string_view entry = trimmed(mask.substr(0, comma));
        if (!names_device(entry)) return entries;
        entries.emplace_back(entry);
        if (comma == std::string_view::npos) return entries;
        mask.remove_prefix(comma + 1);
    }
}

std::variant<std::vector<DeviceBinding>, std::string> bind_devices(const BindingRequest& request) {
    std::vector<DeviceBinding> bindings(static_cast<std::size_t>(request.local_workers));
    const int count = request.devices.count;
    if (request.bind == GpuBind::none || count == 0) return bindings;
    if (request.local_workers > count && !request.share_gpus) return refusal(request);

    const bool single =
        request.bind == GpuBind::single || (request.bind == GpuBind::automatic && !request.is_python);
    const std::vector<std::string> entries = mask_entries(request.devices.mask.value_or(""));
    for (int local_rank = 0; local_rank < request.local_workers; ++local_rank) {
        const int device = local_rank % count;
        DeviceBinding& binding = bindings[static_cast<std::size_t>(local_rank)];
        binding.ddprun_device = std::to_string(single ? 0 : device);
        if (!single) continue;  // The inherited mask, or none at all, is already the node's list.
        binding.cuda_visible_devices =
            request.devices.mask ? entries.at(static_cast<std::size_t>(device)) : std::to_string(device);
    }
    return bindings;
}

}  // namespace ddprun
