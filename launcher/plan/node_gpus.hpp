// The GPUs of this machine that its device files let through, in the order in which their runtime counts them. Read
// once, at start-up, from a root folder that tests replace; the launcher opens no driver for it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/pci_place.hpp"

namespace ddprun::inline launch {

enum class GpuVendor { nvidia, amd, intel };

struct Gpu {
    std::optional<PciPlace> place;  // nothing where sysfs does not show it
    std::string uuid;               // "GPU-…", in the form in which masks name it; empty where unknown
};

struct NodeGpus {
    GpuVendor vendor = GpuVendor::nvidia;
    std::vector<Gpu> gpus;
    std::string source;  // for messages: "/dev/nvidia*", "/dev/kfd"
    bool is_alike =
        true;  // all of one model; CUDA counts others fastest first, in an order that only it knows
};

// NVIDIA's by /dev/nvidia<N>, in the order of their PCI addresses. AMD's by
// /dev/kfd and its topology, unless all there is are the graphics of a processor. Intel's by /dev/dri, those that have no display (Data Center GPUs). The first of these
// that the machine has; without any, none of NVIDIA.
NodeGpus find_gpus(const std::filesystem::path& root = "/");

// True for "nvidia0", not for "nvidiactl" or "nvidia-uvm".
bool is_gpu_file(std::string_view name);

// Of the lines `name value` or `name: value`, the value of that name without the blanks around it; "" without one.
std::string value_of(std::string_view text, std::string_view name);

}  // namespace ddprun::inline launch
