// NodeDevices says which GPUs the launcher was given, and DeviceBinding which of them one worker of this node
// sees and calls its own. Pure.
//
// Masks are variables by which schedulers and people hide GPUs. A mask is a list of indices and names,
// separated by commas. Entries are handed on as they are, and none is ever added. As for CUDA, the list ends
// before the first entry that names no device ("-1", "NoDevFiles", an empty one), so "" and "-1" mean no
// device.
//
//   NVIDIA  CUDA_VISIBLE_DEVICES: indices, GPU-… and MIG-…
//   AMD     ROCR_VISIBLE_DEVICES, and among what that leaves HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES
//           where that is not set: indices and GPU-…; the latter two count as not set where they are empty
//   Intel   ZE_AFFINITY_MASK: indices, and DEVICE.TILE. A tile is a device, unless ZE_FLAT_DEVICE_HIERARCHY
//           is COMPOSITE.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/gpus.hpp"
#include "launcher/plan/nics.hpp"
#include "launcher/plan/program.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// VisibleGpu is a GPU that workers may see.
struct VisibleGpu {
    std::string name;  // shown to people: its entry of the outermost mask, else its index
    std::optional<PciPlace> place;
    std::string entry;  // the value of NodeDevices::variable that shows this GPU alone
};

// NodeDevices are the devices of this node that the launcher may use, and how that is known.
struct NodeDevices {
    std::optional<std::string> mask;       // the variable as the launcher was given it
    GpuVendor vendor = GpuVendor::nvidia;  // of the devices, as far as is known
    int count = 0;
    std::string source;  // for messages: "CUDA_VISIBLE_DEVICES=4,5" or "/dev/nvidia*"
    std::string variable = "CUDA_VISIBLE_DEVICES";  // shows a worker fewer of them
    std::vector<VisibleGpu> gpus;                   // `count` of them
    std::string uncounted;      // NodeGpus::uncounted, where no mask counts them; empty: `count` is right
    std::string contradiction;  // why no program could see what the variables say; empty: nothing is wrong
    std::string remark;         // where a mask names what the node does not have; empty: none
};

// Returns the devices that a mask of this vendor lets through, numbers without leading zeros.
std::vector<std::string> mask_entries(std::string_view mask, GpuVendor vendor = GpuVendor::nvidia);

// Finds what the variables let through of this node's GPUs. Where no GPU can be seen, the variable that is
// set tells the vendor.
NodeDevices find_devices(const Environment& environment, const NodeGpus& node);

// Adds devices up to `workers` where not all could be counted: a user who wants more workers knows of more.
NodeDevices with_uncounted(NodeDevices devices, int workers);

// GpuBind is the choice of --gpu-bind.
enum class GpuBind {
    automatic,  // single for native programs, all for everything else
    single,     // a worker sees its one device
    all,        // a worker sees the node's devices and uses the one at its local rank
    none,       // nothing is set and nothing is checked
};

// Reads "auto", "single", "all", "none"; nothing for another text.
std::optional<GpuBind> parse_gpu_bind(std::string_view text);

struct BindingRequest {
    GpuBind bind = GpuBind::automatic;
    bool share_gpus = false;  // --share-gpus: more workers than devices are wanted
    int local_workers = 1;
    std::string workers_source;  // for messages: "--nproc-per-node 4"
    NodeDevices devices;
};

// DeviceBinding is what one worker's environment gets. Nothing: the variable stays as it was inherited.
struct DeviceBinding {
    std::optional<std::string> mask;  // value of NodeDevices::variable
    std::optional<std::string> ddprun_device;

    bool operator==(const DeviceBinding&) const = default;
};

// Returns the index of a worker's device among those of the node; nothing where the program chooses.
std::optional<int> device_of(const BindingRequest& request, int local_rank);

// Returns a line that refuses more workers than devices, or variables that contradict each other. Empty:
// nothing is wrong.
std::string refuse_devices(const BindingRequest& request);

// Says what `automatic` means for a program: only a native one is known not to choose its device by
// LOCAL_RANK.
GpuBind bind_of(GpuBind bind, ProgramKind kind);

// Returns what a worker of a program of this kind sees. Called where refuse_devices() is empty. Workers that
// share devices take them in turn.
DeviceBinding bind_device(const BindingRequest& request, ProgramKind kind, int local_rank);

}  // namespace launch
}  // namespace ddprun
