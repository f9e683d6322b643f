// NodeGpus: the GPUs of this machine, as sysfs, /proc and /dev tell. All is read once, at start-up, and no
// driver is opened for it. Readers take the root folder, so that tests give them other machines.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/nics.hpp"

namespace ddprun {
inline namespace launch {

enum class GpuVendor { nvidia, amd, intel };

struct Gpu {
    std::optional<PciPlace> place;  // nothing where sysfs does not show it
    std::string uuid;               // "GPU-…", in the form in which masks name it; empty where unknown
    int tiles = 1;  // Intel's parts, each a device of its own unless the user joins them; 0: unknown
};

struct NodeGpus {
    GpuVendor vendor = GpuVendor::nvidia;
    std::vector<Gpu> gpus;
    std::string source;    // for messages: "/dev/nvidia*", "/dev/kfd"
    bool is_alike = true;  // all of one model; CUDA counts mixed ones fastest first, in an order of its own
    // uncounted: which GPUs cannot be counted here, in words. There may be more, so no number of workers is
    // refused because of the GPUs.
    std::string uncounted = {};
};

// Finds the GPUs that the device files let through, in the order in which their runtime counts them:
//   NVIDIA's by /dev/nvidia<N>, in the order of their PCI addresses
//   AMD's by /dev/kfd and its topology, unless it has only the graphics of a processor
//   Intel's by /dev/dri: the GPUs that have no display (Data Center GPUs), with their tiles
// The first vendor counts that the machine has. Without any of the files there may still be a GPU of NVIDIA
// with another driver file (WSL, Jetson), or none.
NodeGpus find_gpus(const std::filesystem::path& root = "/");

// Returns true for "nvidia0", not for "nvidiactl" or "nvidia-uvm".
bool is_gpu_file(std::string_view name);

// Finds the value of that name in lines `name value` or `name: value`, without the blanks around it; "" if
// there is no such line.
std::string value_of(std::string_view text, std::string_view name);

// parse_driver_version and parse_gpu_model read what NVIDIA's driver tells: "550.54.15" in
// /proc/driver/nvidia/version, and "NVIDIA H100 80GB HBM3" in gpus/*/information there. Pure.
std::optional<std::string> parse_driver_version(std::string_view text);
std::optional<std::string> parse_gpu_model(std::string_view text);

}  // namespace launch
}  // namespace ddprun
