// Where devices are plugged in, and which is near which. Pure but for the reader, which takes the root folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::inline launch {

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

}  // namespace ddprun::inline launch
