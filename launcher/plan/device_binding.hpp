// Device binding: which GPU each worker of this node sees and calls its own. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/plan/device_masks.hpp"

namespace ddprun {

// --gpu-bind
enum class GpuBind {
    automatic,  // all for Python programs, single for everything else
    single,     // a worker sees its one device
    all,        // a worker sees the node's devices and uses the one at its local rank
    none,       // nothing is set and nothing is checked
};

// "auto", "single", "all", "none"; nothing for another text.
std::optional<GpuBind> parse_gpu_bind(std::string_view text);

struct BindingRequest {
    GpuBind bind = GpuBind::automatic;
    bool share_gpus = false;  // --share-gpus: more workers than devices are wanted
    bool is_python = false;
    int local_workers = 1;
    std::string workers_source;  // for messages: "--nproc-per-node 4"
    NodeDevices devices;
};

// What one worker's environment gets; nothing means that the variable is left as it was inherited.
struct DeviceBinding {
    std::optional<std::string> mask;  // of NodeDevices::variable
    std::optional<std::string> ddprun_device;

    bool operator==(const DeviceBinding&) const = default;
};

// The place of a worker's device among those of the node; nothing where they are left to the program.
std::optional<int> device_of(const BindingRequest& request, int local_rank);

// One binding for each local rank, or a line that refuses more workers than devices, or variables that contradict each
// other. With shared devices the workers take them in turn.
std::variant<std::vector<DeviceBinding>, std::string> bind_devices(const BindingRequest& request);

}  // namespace ddprun
