#include "launcher/plan/cpu_binding.hpp"

#include "tests/launcher/plan/machine_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

NodeHardware hardware_of(const Machine& machine, const Environment& environment = {}) {
    const Topology topology = machine.topology();
    return {.devices = find_devices(environment, find_gpus(machine.root())),
            .nics = find_nics(machine.root()),
            .topology = topology,
            .usable_cpus = static_cast<int>(topology.cpus.size()),
            .memory_refusal = {}};
}

NodePlacement placed(CpuBind bind, int workers, const NodeHardware& hardware,
                     GpuBind gpu_bind = GpuBind::single) {
    BindingRequest request;
    request.bind = gpu_bind;
    request.local_workers = workers;
    auto result = place_workers(request, bind, hardware);
    INFO((std::holds_alternative<std::string>(result) ? std::get<std::string>(result) : ""));
    REQUIRE(std::holds_alternative<NodePlacement>(result));
    return std::get<NodePlacement>(result);
}

}  // namespace

TEST_CASE("CPUs, memory and adapter are those of the GPU that the worker has") {
    Machine machine(kDgxCpus);
    const NodeHardware hardware = hardware_of(as_dgx(machine), {{"CUDA_VISIBLE_DEVICES", "6,GPU-1111"}});
    const NodePlacement node = placed(CpuBind::numa, 2, hardware);
    CHECK(node.remark.empty());
    CHECK(node.workers[0].placement.gpu == 0);
    CHECK(node.workers[0].text ==
          "CPUs 56-111,168-223, NUMA node 1 and its memory, GPU 6 (0000:73:00.0, NUMA node 1), NIC mlx5_1");
    CHECK(node.workers[1].text ==
          "CPUs 0-55,112-167, NUMA node 0 and its memory, GPU-1111 (0000:23:00.0, NUMA node 0), NIC mlx5_6");
    CHECK(node.workers[1].placement.memory_node == 0);
    CHECK(node.workers[1].threads == 112);
    CHECK(placed(CpuBind::exclusive, 2, hardware).workers[0].text.starts_with("CPUs 56-111,168-223, "));
}

TEST_CASE("unbound workers are told of, and nothing is set for them") {
    Machine machine(kDgxCpus);
    const NodeHardware hardware = hardware_of(as_dgx(machine));
    const PlacedWorker worker = placed(CpuBind::none, 4, hardware).workers[3];
    CHECK(worker.placement.cpus.empty());
    CHECK(worker.placement.memory_node == -1);
    CHECK(worker.threads == 56);
    CHECK(worker.text == "any of CPUs 0-223, NUMA nodes 0-1, GPU 3 (0000:43:00.0, NUMA node 0), NIC mlx5_4");
    // The program chooses its device, so its place is not known.
    const PlacedWorker free = placed(CpuBind::numa, 2, hardware, GpuBind::none).workers[1];
    CHECK(free.text == "CPUs 56-111,168-223, NUMA node 1 and its memory");
    CHECK(free.placement.nic.empty());
}

TEST_CASE("a memory policy is for several NUMA nodes, and for CPUs of one of them") {
    CHECK(placed(CpuBind::cores, 2, hardware_of(Machine(kOneSocketCpus))).workers[0].placement.memory_node ==
          -1);
    const NodeHardware epyc = hardware_of(Machine(kEpycCpus));
    CHECK(placed(CpuBind::cores, 4, epyc).workers[3].placement.memory_node == 3);
    CHECK(placed(CpuBind::cores, 1, epyc).workers[0].placement.memory_node == -1);
}

TEST_CASE("where memory may not be chosen, CPUs are bound and one line says so") {
    NodeHardware epyc = hardware_of(Machine(kEpycCpus));
    epyc.memory_refusal = "Operation not permitted";
    const NodePlacement node = placed(CpuBind::cores, 4, epyc);
    CHECK(node.workers[3].placement.memory_node == -1);
    CHECK(node.workers[3].text == "CPUs 48-63,112-127, NUMA node 3");
    CHECK(node.remark ==
          "workers are bound to CPUs, but not to their memory: set_mempolicy: Operation not permitted");
    CHECK(placed(CpuBind::cores, 1, epyc).remark.empty());
    CHECK(placed(CpuBind::none, 4, epyc).remark.empty());
}

TEST_CASE("a GPU of a machine with one NUMA node is of that, whatever its firmware says") {
    Machine machine("0 0 0-7\n");
    machine.nvidia(0, "pci0000:00/0000:00:05.0", -1, "GPU-a")
        .nvidia(1, "pci0000:00/0000:00:06.0", -1, "GPU-b");
    const NodePlacement node = placed(CpuBind::exclusive, 1, hardware_of(machine));
    CHECK(node.workers[0].text == "CPUs 0-3, NUMA node 0, GPU 0 (0000:00:05.0)");
}

TEST_CASE("what contradicts itself is refused, unless the devices are the program's") {
    NodeHardware hardware = hardware_of(Machine("0 0 0-7\n"));
    hardware.devices.contradiction = "A=1 contradicts B=2";
    BindingRequest request;
    CHECK(std::get<std::string>(place_workers(request, CpuBind::none, hardware)) ==
          "A=1 contradicts B=2; --gpu-bind none leaves the devices to the program");
    CHECK(placed(CpuBind::none, 1, hardware, GpuBind::none).workers.size() == 1);
}

}  // namespace ddprun
