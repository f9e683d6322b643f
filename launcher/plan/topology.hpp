// Topology: how the CPUs that this launcher may use lie in the machine, as sysfs tells. The reader takes the root
// folder, so that tests give it other machines; what a machine does not tell is filled in so that binding works
// all the same.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/cpu_list.hpp"

namespace ddprun::inline launch {

// Groups are named by the lowest CPU of this machine that is in them.
struct CpuPlace {
    int cpu = 0;
    int core = 0;    // the hardware threads of one core; where unknown, each CPU is a core
    int cache = 0;   // those that share a last-level cache; where unknown, the NUMA node is one
    int socket = 0;  // the kernel's number; 0 where unknown
    int node = 0;    // the NUMA node's number; 0 where the kernel has none

    bool operator==(const CpuPlace&) const = default;
};

// Sorted by CPU.
struct Topology {
    std::vector<CpuPlace> cpus;
    CpuList memory_nodes;  // NUMA nodes with memory that this process may use

    CpuList nodes_of(const CpuList& some_cpus) const;
};

// Reads root/sys/devices/system and root/proc/self/status. Blocking; some files for each core.
Topology read_topology(const CpuList& allowed, const std::filesystem::path& root = "/");

// Where devices are plugged in, and which is near which. Pure but for the reader, which takes the root folder.

struct PciPlace {
    std::string address;            // "0000:3b:00.0"
    std::vector<std::string> path;  // from the root complex to the device: "pci0000:3a", "0000:3a:00.0", …
    int node = -1;                  // NUMA node; -1 where the firmware does not say

    bool operator==(const PciPlace&) const = default;
};

// What sysfs says of the device whose folder (or a link to it) this is; nothing where it is no PCI device.
std::optional<PciPlace> read_pci_place(const std::filesystem::path& device);

// A network adapter for RDMA, as /sys/class/infiniband has it, with a port that is up.
struct Nic {
    std::string name;  // "mlx5_0"
    PciPlace place;
};

// Sorted by name, with numbers in order.
std::vector<Nic> find_nics(const std::filesystem::path& root = "/");

// The name of the adapter nearest to each GPU, empty where that cannot be known. Near is who shares bridges below the
// root complex, the more the nearer, else who shares the NUMA node; GPUs to which several are equally near take these
// in turn. A node's only adapter is near to all.
std::vector<std::string> nearest_nics(const std::vector<std::optional<PciPlace>>& gpus,
                                      const std::vector<Nic>& nics);

// The GPUs of this machine that its device files let through, in the order in which their runtime counts them. Read
// once, at start-up, from a root folder that tests replace; the launcher opens no driver for it.

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

// What NVIDIA's driver tells in /proc. Pure.

// "550.54.15" out of /proc/driver/nvidia/version, and "NVIDIA H100 80GB HBM3" out of gpus/*/information there.
std::optional<std::string> parse_driver_version(std::string_view text);
std::optional<std::string> parse_gpu_model(std::string_view text);

}  // namespace ddprun::inline launch
