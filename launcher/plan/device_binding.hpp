// Device binding: which GPU each worker of this node sees and calls its own. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/plan/device_masks.hpp"
#include "launcher/plan/program_kind.hpp"

namespace ddprun::inline launch {

// --gpu-bind
enum class GpuBind {
    automatic,  // single for native programs, all for everything else
    single,     // a worker sees its one device
    all,        // a worker sees the node's devices and uses the one at its local rank
    none,       // nothing is set and nothing is checked
};

// "auto", "single", "all", "none"; nothing for another text.
std::optional<GpuBind> parse_gpu_bind(std::string_view text);

struct BindingRequest {
    GpuBind bind = GpuBind::automatic;
    bool share_gpus = false;  // --share-gpus: more workers than devices are wanted
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

// A line that refuses more workers than devices, or variables that contradict each other; empty: none does.
std::string refuse_devices(const BindingRequest& request);

// What `automatic` is for a program: only a native one is known not to count its devices by LOCAL_RANK.
GpuBind bind_of(GpuBind bind, ProgramKind kind);

// Of a worker of such a program, where nothing is refused. With shared devices the workers take them in turn.
DeviceBinding bind_device(const BindingRequest& request, ProgramKind kind, int local_rank);

}  // namespace ddprun::inline launch
