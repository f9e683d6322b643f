#include "launcher/plan/device_binding.hpp"

#include <fmt/core.h>

#include "tests/launcher/plan/machine_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Entries = std::vector<std::string>;

// The addresses, "-" where unknown.
Entries addresses(const NodeDevices& devices) {
    Entries texts;
    for (const VisibleGpu& gpu : devices.gpus) texts.push_back(gpu.place ? gpu.place->address : "-");
    return texts;
}

// What the map calls them, and what a worker's mask says for each alone.
Entries names(const NodeDevices& devices) {
    Entries texts;
    for (const VisibleGpu& gpu : devices.gpus) texts.push_back(gpu.name + " by " + gpu.entry);
    return texts;
}

// Without anything to see: what a launcher knows on a login node.
NodeDevices masked(const Environment& environment) { return find_devices(environment, {}); }

Machine& as_mi300(Machine& machine) {
    machine.file("sys/class/kfd/kfd/topology/nodes/0/properties",
                 "cpu_cores_count 96\nsimd_count 0\nlocation_id 0\n");
    // Numbers of more digits come later.
    for (int i = 0; i < 4; ++i) {
        const int number = i == 3 ? 10 : i + 2;
        machine.amd(number, fmt::format("pci0000:{0}0/0000:{0}0:01.0/0000:{0}5:00.0", i + 1), i / 2,
                    static_cast<unsigned>(0x10 * (i + 1) + 5) << 8, 0xabc0u + static_cast<unsigned>(i));
    }
    return machine;
}

}  // namespace

TEST_CASE("what a mask lets through, as its runtime reads it") {
    CHECK(mask_entries("0,GPU-1,MIG-2") == Entries{"0", "GPU-1", "MIG-2"});
    CHECK(mask_entries("0,GPU-1,MIG-2", GpuVendor::amd) == Entries{"0", "GPU-1"});
    CHECK(mask_entries("0,1.1,GPU-1", GpuVendor::intel) == Entries{"0", "1.1"});
    CHECK(mask_entries("0,1.", GpuVendor::intel) == Entries{"0"});
    CHECK(mask_entries("00,1.01", GpuVendor::intel) == Entries{"0", "1.1"});
    CHECK(mask_entries("0,1.1") == Entries{"0"});
}

TEST_CASE("GPUs are counted by the mask, else by the device files") {
    TemporaryFolder root;
    std::filesystem::create_directory(root.path() / "dev");
    for (const char* name :
         {"nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia", "nvidia0x", "null"}) {
        root.file(std::string("dev/") + name, "");
    }
    const NodeDevices files = find_devices({}, find_gpus(root.path()));
    CHECK(files.count == 3);
    CHECK(files.source == root.path().string() + "/dev/nvidia*");
    CHECK_FALSE(files.mask.has_value());
    CHECK(addresses(files) == Entries{"-", "-", "-"});

    const NodeDevices mask = masked({{"CUDA_VISIBLE_DEVICES", "4,GPU-5"}});
    CHECK(mask.count == 2);
    CHECK(mask.source == "CUDA_VISIBLE_DEVICES=4,GPU-5");
    CHECK(mask.mask == "4,GPU-5");
    CHECK(mask.remark.empty());
    CHECK(masked({{"CUDA_VISIBLE_DEVICES", ""}}).count == 0);
    CHECK(masked({{"CUDA_VISIBLE_DEVICES", "-1"}}).count == 0);
    CHECK(find_devices({}, find_gpus(root.path() / "missing")).count == 0);
}

TEST_CASE("NVIDIA's are found by index, by name, and by the beginning of a name") {
    Machine machine("0 0 0-1\n");
    const NodeGpus node = find_gpus(as_dgx(machine).root());
    REQUIRE(node.gpus.size() == 8);
    CHECK(node.gpus[2].uuid == "GPU-2222-0000");
    const auto behind = [&node](const char* mask) {
        return addresses(find_devices({{"CUDA_VISIBLE_DEVICES", mask}}, node));
    };
    CHECK(addresses(find_devices({}, node)).at(7) == "0000:83:00.0");
    CHECK(behind("4,0") == Entries{"0000:53:00.0", "0000:13:00.0"});
    CHECK(behind("GPU-33,MIG-GPU-5555-0000/1/0,MIG-x") == Entries{"0000:43:00.0", "0000:63:00.0", "-"});
    CHECK(behind("GPU-") == Entries{"-"});  // more than one
    CHECK(find_devices({}, node).gpus.at(3).place->node == 0);
    CHECK(find_devices({{"CUDA_VISIBLE_DEVICES", "1,8"}}, node).remark ==
          "CUDA_VISIBLE_DEVICES=1,8 names GPU 8, but this node has 8 (" + node.source + "), counted from 0");
    // HIP's variables are for other machines.
    CHECK(find_devices({{"HIP_VISIBLE_DEVICES", "0"}}, node).count == 8);
}

TEST_CASE("a container that has some GPUs only counts these from 0") {
    Machine machine("0 0 0-1\n");
    as_dgx(machine);
    for (const int hidden : {0, 1, 2, 3, 6, 7})
        std::filesystem::remove(machine.root() / "dev" / ("nvidia" + std::to_string(hidden)));
    CHECK(addresses(find_devices({}, find_gpus(machine.root()))) == Entries{"0000:53:00.0", "0000:63:00.0"});
}

TEST_CASE("GPUs of several models are known by name, by number only in the order of the bus") {
    Machine machine("0 0 0-1\n");
    machine.nvidia(0, "pci0000:10/0000:11:00.0", 0, "GPU-a", "NVIDIA T400")
        .nvidia(1, "pci0000:20/0000:21:00.0", 0, "GPU-b", "NVIDIA H100");
    const NodeGpus node = find_gpus(machine.root());
    CHECK(addresses(find_devices({}, node)) == Entries{"-", "-"});
    CHECK(addresses(find_devices({{"CUDA_VISIBLE_DEVICES", "1,GPU-b"}}, node)) ==
          Entries{"-", "0000:21:00.0"});
    CHECK(addresses(find_devices({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, node)) ==
          Entries{"0000:11:00.0", "0000:21:00.0"});
}

TEST_CASE("AMD's are those of the topology, behind two masks") {
    Machine machine("0 0 0-1\n");
    const NodeGpus node = find_gpus(as_mi300(machine).root());
    CHECK(node.vendor == GpuVendor::amd);
    const NodeDevices all = find_devices({}, node);
    CHECK(addresses(all) == Entries{"0000:15:00.0", "0000:25:00.0", "0000:35:00.0", "0000:45:00.0"});
    CHECK(all.variable == "HIP_VISIBLE_DEVICES");
    CHECK(all.source == machine.root().string() + "/dev/kfd");

    const NodeDevices outer = find_devices({{"ROCR_VISIBLE_DEVICES", "2,GPU-000000000000abc3"}}, node);
    CHECK(addresses(outer) == Entries{"0000:35:00.0", "0000:45:00.0"});
    CHECK(outer.variable == "HIP_VISIBLE_DEVICES");
    CHECK(names(outer) == Entries{"2 by 0", "GPU-000000000000abc3 by 1"});
    CHECK_FALSE(outer.mask);

    const NodeDevices both =
        find_devices({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "1"}}, node);
    CHECK(addresses(both) == Entries{"0000:45:00.0"});
    CHECK(both.contradiction.empty());
    CHECK(names(both) == Entries{"3 by 1"});
    const NodeDevices cuda = find_devices({{"CUDA_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", ""}}, node);
    CHECK(addresses(cuda) == Entries{"0000:45:00.0"});
    CHECK(cuda.variable == "CUDA_VISIBLE_DEVICES");
    CHECK(
        find_devices({{"HIP_VISIBLE_DEVICES", "4"}}, node).remark.find("names GPU 4, but this node has 4") !=
        std::string::npos);
    // A container may not read of those that it has not.
    machine.file("sys/class/kfd/kfd/topology/nodes/2/properties", "");
    CHECK(find_devices({}, find_gpus(machine.root())).count == 3);
    std::filesystem::remove(machine.root() / "dev/kfd");
    CHECK(find_devices({}, find_gpus(machine.root())).count == 0);
}

TEST_CASE("behind ROCR_VISIBLE_DEVICES devices are counted anew from 0, also by a launcher within") {
    const Environment outer{{"ROCR_VISIBLE_DEVICES", "1,0"}};
    const NodeDevices devices = masked(outer);
    CHECK(names(devices) == Entries{"1 by 0", "0 by 1"});
    for (const VisibleGpu& gpu : devices.gpus) {
        Environment inner = outer;
        inner[devices.variable] = gpu.entry;
        const NodeDevices within = masked(inner);
        CHECK(within.contradiction.empty());
        CHECK(names(within) == Entries{gpu.name + " by " + gpu.entry});
    }
    CHECK(names(masked({{"HIP_VISIBLE_DEVICES", "4,6"}})) == Entries{"4 by 4", "6 by 6"});
    CHECK(names(masked({{"ROCR_VISIBLE_DEVICES", "4,6"}, {"CUDA_VISIBLE_DEVICES", "1,GPU-7"}})) ==
          Entries{"6 by 1", "GPU-7 by GPU-7"});
}

TEST_CASE("the graphics of a processor are no GPU for workers, unless there is another one") {
    Machine machine("0 0 0-1\n");
    machine.amd(1, "pci0000:00/0000:00:08.1/0000:05:00.0", -1, 0x500, 0)
        .file("sys/devices/pci0000:00/0000:00:08.1/0000:05:00.0/mem_info_vram_total", "536870912\n");
    CHECK(find_devices({}, find_gpus(machine.root())).count == 0);
    machine.amd(2, "pci0000:00/0000:00:01.1/0000:03:00.0", -1, 0x300, 0)
        .file("sys/devices/pci0000:00/0000:00:01.1/0000:03:00.0/mem_info_vram_total", "17163091968\n");
    CHECK(addresses(find_devices({}, find_gpus(machine.root()))) == Entries{"0000:05:00.0", "0000:03:00.0"});
}

TEST_CASE("variables that contradict each other are named") {
    CHECK(masked({{"ROCR_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "2,3"}}).contradiction ==
          "HIP_VISIBLE_DEVICES=2,3 names device 2 of the 2 that ROCR_VISIBLE_DEVICES=2,3 leaves, which are "
          "counted "
          "anew from 0");
    CHECK(masked({{"ROCR_VISIBLE_DEVICES", "0,1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}).contradiction.empty());
    CHECK(masked({{"HIP_VISIBLE_DEVICES", "0,1"}, {"CUDA_VISIBLE_DEVICES", "2"}}).contradiction ==
          "HIP_VISIBLE_DEVICES=0,1 contradicts CUDA_VISIBLE_DEVICES=2; on AMD's GPUs both mean the same");
    CHECK(masked({{"HIP_VISIBLE_DEVICES", "0, 1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}).contradiction.empty());
}

TEST_CASE("a device that a list names twice is none to the drivers") {
    CHECK(masked({{"CUDA_VISIBLE_DEVICES", "4, 4"}}).contradiction ==
          "CUDA_VISIBLE_DEVICES=4, 4 names 4 twice, so that programs would see no GPU");
    CHECK(masked({{"CUDA_VISIBLE_DEVICES", "GPU-a,1,GPU-a"}}).contradiction ==
          "CUDA_VISIBLE_DEVICES=GPU-a,1,GPU-a names GPU-a twice, so that programs would see no GPU");
    CHECK(masked({{"ROCR_VISIBLE_DEVICES", "1,1"}}).contradiction ==
          "ROCR_VISIBLE_DEVICES=1,1 names 1 twice, so that programs would see no GPU");
    CHECK(masked({{"ROCR_VISIBLE_DEVICES", "1,2"}, {"HIP_VISIBLE_DEVICES", "0,0"}}).contradiction ==
          "HIP_VISIBLE_DEVICES=0,0 names 0 twice, so that programs would see no GPU");
    CHECK(masked({{"CUDA_VISIBLE_DEVICES", "4,5,-1,4"}}).contradiction.empty());
    CHECK(masked({{"CUDA_VISIBLE_DEVICES", "0,00"}}).contradiction ==
          "CUDA_VISIBLE_DEVICES=0,00 names 0 twice, so that programs would see no GPU");
    CHECK(masked({{"ZE_AFFINITY_MASK", "0,0"}}).contradiction ==
          "ZE_AFFINITY_MASK=0,0 names 0 twice, which is one GPU");
    CHECK(masked({{"ZE_AFFINITY_MASK", "0.1,00.1"}}).contradiction ==
          "ZE_AFFINITY_MASK=0.1,00.1 names 0.1 twice, which is one GPU");
    CHECK(masked({{"ZE_AFFINITY_MASK", "0.0,0.1,1"}}).contradiction.empty());
}

TEST_CASE("Intel's are those without a display, by ZE_AFFINITY_MASK") {
    Machine machine("0 0 0-1\n");
    machine.intel("pci0000:10/0000:11:00.0", 1).intel("pci0000:20/0000:21:00.0", 0);
    machine.intel("pci0000:00/0000:00:02.0", 0, "0x030000");  // of the processor
    const NodeGpus node = find_gpus(machine.root());
    CHECK(addresses(find_devices({}, node)) == Entries{"0000:11:00.0", "0000:21:00.0"});
    const NodeDevices tiles = find_devices({{"ZE_AFFINITY_MASK", "1.0,1.1"}}, node);
    CHECK(addresses(tiles) == Entries{"0000:21:00.0", "0000:21:00.0"});
    CHECK(tiles.variable == "ZE_AFFINITY_MASK");
    CHECK(tiles.vendor == GpuVendor::intel);
    CHECK(find_devices({{"HIP_VISIBLE_DEVICES", "0"}}, {}).vendor == GpuVendor::amd);
    CHECK(find_devices({}, {}).vendor == GpuVendor::nvidia);
    CHECK(masked({{"ZE_AFFINITY_MASK", "0,1,2"}}).count == 3);
    CHECK(masked({{"ZE_AFFINITY_MASK", "0,1,2"}, {"CUDA_VISIBLE_DEVICES", "0"}}).count == 1);
}

TEST_CASE("Intel's tiles are devices, unless the user joins them; none is counted that sysfs does not show") {
    Machine flat("0 0 0-1\n");
    flat.intel("pci0000:10/0000:11:00.0", 1).intel("pci0000:20/0000:21:00.0", 0);
    const NodeGpus unknown = find_gpus(flat.root());
    CHECK_FALSE(find_devices({}, unknown).uncounted.empty());
    CHECK(find_devices({{"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"}}, unknown).uncounted.empty());
    CHECK(find_devices({{"ZE_AFFINITY_MASK", "0,1,2"}}, unknown).uncounted.empty());
    // The driver xe has folders of the device, i915 of the card.
    for (const char* name : {"tile0/gt0/id", "tile1/gt1/id"})
        flat.file(std::string("sys/devices/pci0000:10/0000:11:00.0/") + name, "");
    for (const char* name : {"drm/card1/gt/gt0/id", "drm/card1/gt/gt1/id"})
        flat.file(std::string("sys/devices/pci0000:20/0000:21:00.0/") + name, "");
    const NodeGpus node = find_gpus(flat.root());
    for (const char* hierarchy : {"FLAT", "COMBINED", ""}) {
        const NodeDevices devices = find_devices({{"ZE_FLAT_DEVICE_HIERARCHY", hierarchy}}, node);
        CHECK(addresses(devices) == Entries{"0000:11:00.0", "0000:11:00.0", "0000:21:00.0", "0000:21:00.0"});
        CHECK(devices.uncounted.empty());
    }
    CHECK(find_devices({}, node).count == 4);
    CHECK(find_devices({{"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"}}, node).count == 2);
    CHECK(addresses(find_devices({{"ZE_AFFINITY_MASK", "2"}}, node)) == Entries{"0000:21:00.0"});
}

TEST_CASE("devices whose driver is elsewhere, and cards in parts, are said to be no full count") {
    for (const char* file : {"dev/dxg", "dev/nvhost-gpu", "dev/nvgpu"}) {
        Machine machine("0 0 0-1\n");
        machine.file(file, "");
        const NodeDevices devices = find_devices({}, find_gpus(machine.root()));
        CHECK(devices.count == 1);
        CHECK_FALSE(devices.uncounted.empty());
        CHECK_THAT(devices.source, Catch::EndsWith(file));
    }
    Machine machine("0 0 0-1\n");
    machine.nvidia(0, "pci0000:10/0000:11:00.0", 1, "GPU-aa");
    CHECK_THAT(find_gpus(machine.root()).source, Catch::EndsWith("/dev/nvidia*"));
    machine.file("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", "");
    CHECK_THAT(find_gpus(machine.root()).source, Catch::Contains("CUDA_VISIBLE_DEVICES=MIG-"));
}

}  // namespace ddprun
