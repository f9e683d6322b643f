// Nic and PciPlace: the network adapters of this machine, and where its devices are plugged in, as sysfs
// tells. Readers take the root folder, so that tests give them other machines.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {
inline namespace launch {

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

}  // namespace launch
}  // namespace ddprun
