#include "launcher/plan/device_binding.hpp"

#include <fmt/core.h>

namespace ddprun {
namespace {

constexpr const char* kNone = "--gpu-bind none leaves the devices to the program";

const char* plural(int count) { return count == 1 ? "" : "s"; }

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

std::variant<std::vector<DeviceBinding>, std::string> bind_devices(const BindingRequest& request) {
    std::vector<DeviceBinding> bindings(static_cast<std::size_t>(request.local_workers));
    const int count = request.devices.count;
    if (request.bind == GpuBind::none) return bindings;
    if (const std::string& wrong = request.devices.contradiction; !wrong.empty())
        return is_asked_for(request) ? wrong : fmt::format("{}; {}", wrong, kNone);
    if (count == 0) return bindings;
    if (request.local_workers > count && !request.share_gpus) return refusal(request);

    const bool single =
        request.bind == GpuBind::single || (request.bind == GpuBind::automatic && !request.is_python);
    for (int local_rank = 0; local_rank < request.local_workers; ++local_rank) {
        const int device = *device_of(request, local_rank);
        DeviceBinding& binding = bindings[static_cast<std::size_t>(local_rank)];
        binding.ddprun_device = std::to_string(single ? 0 : device);
        // The inherited mask, or none at all, is already the node's list.
        if (single) binding.mask = request.devices.gpus.at(static_cast<std::size_t>(device)).entry;
    }
    return bindings;
}

}  // namespace ddprun
