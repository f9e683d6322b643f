#include "launcher/plan/device_binding.hpp"

#include <fmt/core.h>

namespace ddprun::inline launch {
namespace {

constexpr const char* kNone = "--gpu-bind none leaves the devices to the program";

const char* plural(int count) { return count == 1 ? "" : "s"; }

// An inherited mask is that list already. Intel's tiles may be devices of their own, which nobody has counted here.
std::optional<std::string> list_of_all(const NodeDevices& devices) {
    if (devices.mask || devices.vendor == GpuVendor::intel) return std::nullopt;
    std::string list;
    for (const VisibleGpu& gpu : devices.gpus) list += (list.empty() ? "" : ",") + gpu.entry;
    return list;
}

// Then it is no advice to let it be.
bool is_asked_for(const BindingRequest& request) { return request.bind == GpuBind::single; }

std::string refusal(const BindingRequest& request) {
    const int workers = request.local_workers;
    const NodeDevices& devices = request.devices;
    return fmt::format("{} worker{} ({}) but {} GPU{} ({}); --share-gpus lets workers share{}", workers,
                       plural(workers), request.workers_source, devices.count, plural(devices.count),
                       devices.source, is_asked_for(request) ? "" : fmt::format(", {}", kNone));
}

}  // namespace

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

}  // namespace ddprun::inline launch
