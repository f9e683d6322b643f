// Topology, Nic and NodeGpus are what this machine has, as sysfs, /proc and /dev tell: how its CPUs lie, its
// network adapters and its GPUs. All is read once, at start-up, and no driver is opened for it. Readers take
// the root folder, so that tests give them other machines. What a machine does not tell of its CPUs is filled
// in, so that binding still works.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// A CpuList has CPUs (or NUMA nodes), as the kernel lists them: "0-3,8".
using CpuList = std::vector<int>;  // ascending, each number once

// kMaxCpus: more than any machine that Linux runs on.
inline constexpr int kMaxCpus = 65536;

// Reads a text that may end with a newline, and may be empty. Nothing for another text, and for a number of
// kMaxCpus or more.
std::optional<CpuList> parse_cpu_list(std::string_view text);

std::string cpu_list_text(const CpuList& cpus);

// Returns the CPUs that are in both lists.
CpuList common_cpus(const CpuList& one, const CpuList& other);

// CpuPlace says where a CPU is. A group is named by its lowest CPU on this machine.
struct CpuPlace {
    int cpu = 0;
    int core = 0;    // the hardware threads of one core; where unknown, each CPU is a core
    int cache = 0;   // the CPUs that share a last-level cache; where unknown, those of the NUMA node
    int socket = 0;  // the kernel's number; 0 where unknown
    int node = 0;    // the NUMA node's number; 0 where the kernel has none

    bool operator==(const CpuPlace&) const = default;
};

// A Topology is sorted by CPU.
struct Topology {
    std::vector<CpuPlace> cpus;
    CpuList memory_nodes;  // NUMA nodes with memory that this process may use

    CpuList nodes_of(const CpuList& some_cpus) const;
};

// Reads root/sys/devices/system and root/proc/self/status. Blocks; some files for each core.
Topology read_topology(const CpuList& allowed, const std::filesystem::path& root = "/");

// Says why this process may not choose the NUMA node of its memory, in the system's words; empty if it may.
// Containers often forbid the system call.
std::string memory_policy_refusal();

// PciPlace says where a device is plugged in.
struct PciPlace {
    std::string address;            // "0000:3b:00.0"
    std::vector<std::string> path;  // the way from the root complex to the device: "pci0000:3a", …
    int node = -1;                  // NUMA node; -1 where the firmware does not say

    bool operator==(const PciPlace&) const = default;
};

// Reads what sysfs says of the device of this folder (or link to it); nothing where it is no PCI device.
std::optional<PciPlace> read_pci_place(const std::filesystem::path& device);

// Nic is a network adapter for RDMA, as /sys/class/infiniband has it, with a port that is up.
struct Nic {
    std::string name;  // "mlx5_0"
    PciPlace place;
};

// Finds the adapters, sorted by name, with numbers in order.
std::vector<Nic> find_nics(const std::filesystem::path& root = "/");

// Names the adapter nearest to each GPU, empty where that is not known. The adapter is nearest that shares
// the most bridges below the root complex, else one that shares the NUMA node. GPUs to which several adapters
// are equally near take them in turn. A node's only adapter is near to all.
std::vector<std::string> nearest_nics(const std::vector<std::optional<PciPlace>>& gpus,
                                      const std::vector<Nic>& nics);

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
