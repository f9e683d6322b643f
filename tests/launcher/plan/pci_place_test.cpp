#include "launcher/plan/gpus.hpp"
#include "launcher/plan/nics.hpp"

#include <fmt/core.h>
#include "launcher/plan/device_binding.hpp"

#include "tests/launcher/plan/machine_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Names = std::vector<std::string>;

Names nearest(const Machine& machine) {
    std::vector<std::optional<PciPlace>> gpus;
    for (const Gpu& gpu : find_gpus(machine.root()).gpus) gpus.push_back(gpu.place);
    return nearest_nics(gpus, find_nics(machine.root()));
}

}  // namespace

TEST_CASE("a device's place is the way to it and its NUMA node") {
    Machine machine("0 0 0-1\n");
    machine.nvidia(0, "pci0000:15/0000:15:01.0/0000:1b:00.0", 1, "GPU-a");
    CHECK(read_pci_place(machine.root() / "sys/bus/pci/devices/0000:1b:00.0") ==
          PciPlace{"0000:1b:00.0", {"pci0000:15", "0000:15:01.0", "0000:1b:00.0"}, 1});
    CHECK_FALSE(read_pci_place(machine.root() / "sys/bus/pci/devices/0000:1c:00.0"));
    CHECK_FALSE(read_pci_place(machine.root() / "sys"));
}

TEST_CASE("the adapter at the same switch is the nearest") {
    Machine machine("0 0 0-1\n");
    CHECK(nearest(as_dgx(machine)) ==
          Names{"mlx5_7", "mlx5_6", "mlx5_5", "mlx5_4", "mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"});
}

TEST_CASE("without a switch it is one of the NUMA node, in turn, by number") {
    Machine machine("0 0 0-1\n");
    for (int i = 0; i < 4; ++i)
        machine.nvidia(i, fmt::format("pci0000:{0}0/0000:{0}1:00.0", i), i / 2, fmt::format("GPU-{}", i));
    machine.nic("mlx5_10", "pci0000:b0/0000:b1:00.0", 0).nic("mlx5_9", "pci0000:a0/0000:a1:00.0", 0);
    CHECK(nearest(machine) == Names{"mlx5_9", "mlx5_10", "", ""});
    machine.nic("mlx5_0", "pci0000:c0/0000:c1:00.0", 1, "1: DOWN");
    CHECK(nearest(machine)[2].empty());
    machine.nic("mlx5_1", "pci0000:d0/0000:d1:00.0", 1);
    CHECK(nearest(machine) == Names{"mlx5_9", "mlx5_10", "mlx5_1", "mlx5_1"});
}

TEST_CASE(
    "a virtual machine that shows all devices at one place tells nothing, unless there is one adapter") {
    Machine machine("0 0 0-1\n");
    machine.nvidia(0, "pci0000:00/0000:00:05.0", -1, "GPU-a")
        .nvidia(1, "pci0000:00/0000:00:06.0", -1, "GPU-b");
    CHECK(nearest(machine) == Names{"", ""});
    machine.nic("efa_0", "pci0000:00/0000:00:07.0", -1);
    CHECK(nearest(machine) == Names{"efa_0", "efa_0"});
    machine.nic("efa_1", "pci0000:00/0000:00:08.0", -1);
    CHECK(nearest(machine) == Names{"", ""});
    CHECK(nearest_nics({std::nullopt}, find_nics(machine.root())) == Names{""});
}

}  // namespace ddprun
