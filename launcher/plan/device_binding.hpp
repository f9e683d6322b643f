// Device binding: which GPU each worker of this node sees and calls its own. Pure.
//
// A mask is a value of CUDA_VISIBLE_DEVICES: device indices and GPU-... or MIG-... names, separated by
// commas. Its entries are handed on as they are and nothing is ever added to them. As for CUDA, the list ends
// before the first entry that is none of these ("-1", "NoDevFiles", nothing at all), so "" and "-1" mean no
// device.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

// The devices that a mask lets through.
std::vector<std::string> mask_entries(std::string_view mask);

// The devices of this node that the launcher may use, and how that is known.
struct NodeDevices {
    std::optional<std::string> mask;  // CUDA_VISIBLE_DEVICES as the launcher was given it
    int count = 0;
    std::string source;  // for messages: "CUDA_VISIBLE_DEVICES=4,5" or "/dev/nvidia*"
};

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
    std::optional<std::string> cuda_visible_devices;
    std::optional<std::string> ddprun_device;

    bool operator==(const DeviceBinding&) const = default;
};

// One binding for each local rank, or a line that refuses more workers than devices. With shared devices the
// workers take them in turn.
std::variant<std::vector<DeviceBinding>, std::string> bind_devices(const BindingRequest& request);

}  // namespace ddprun
