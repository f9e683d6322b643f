#include "launcher/plan/topology.hpp"
#include "launcher/plan/cpu_list.hpp"

#include "rendezvous/system/small_file.hpp"
#include "tests/launcher/plan/machine_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

CpuPlace place_of(const Topology& topology, int cpu) {
    for (const CpuPlace& place : topology.cpus) {
        if (place.cpu == cpu) return place;
    }
    return {.cpu = -1};
}

}  // namespace

TEST_CASE("lists of CPUs as the kernel writes them") {
    CHECK(parse_cpu_list("0-3,8\n") == CpuList{0, 1, 2, 3, 8});
    CHECK(parse_cpu_list("7") == CpuList{7});
    CHECK(parse_cpu_list("5,1-2,2") == CpuList{1, 2, 5});
    CHECK(parse_cpu_list("\n") == CpuList{});
    CHECK(parse_cpu_list("") == CpuList{});
    for (const char* wrong : {"3-1", "a", "1,,2", "1-", "-1", "0-65536", "1 2"}) {
        INFO(wrong);
        CHECK_FALSE(parse_cpu_list(wrong));
    }
    CHECK(cpu_list_text({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
    CHECK(cpu_list_text({}).empty());
    CHECK(common_cpus({0, 1, 2, 5}, {1, 5, 9}) == CpuList{1, 5});
}

TEST_CASE("two sockets with two threads a core") {
    const Topology topology = Machine(kDgxCpus).topology();
    REQUIRE(topology.cpus.size() == 224);
    CHECK(place_of(topology, 3) == CpuPlace{.cpu = 3, .core = 3, .cache = 0, .socket = 0, .node = 0});
    CHECK(place_of(topology, 115) == CpuPlace{.cpu = 115, .core = 3, .cache = 0, .socket = 0, .node = 0});
    CHECK(place_of(topology, 223) == CpuPlace{.cpu = 223, .core = 111, .cache = 56, .socket = 1, .node = 1});
    CHECK(topology.memory_nodes == CpuList{0, 1});
    CHECK(topology.nodes_of({0, 55, 112}) == CpuList{0});
    CHECK(topology.nodes_of({55, 56}) == CpuList{0, 1});
}

TEST_CASE("the caches of an EPYC, and its NUMA nodes on one socket") {
    const Topology topology = Machine(kEpycCpus).topology();
    CHECK(place_of(topology, 20) == CpuPlace{.cpu = 20, .core = 20, .cache = 16, .socket = 0, .node = 1});
    CHECK(place_of(topology, 127) == CpuPlace{.cpu = 127, .core = 63, .cache = 56, .socket = 0, .node = 3});
}

TEST_CASE("only the CPUs that may be used, and only memory that may be") {
    Machine machine(kDgxCpus);
    machine.file("proc/self/status", "Name:\tx\nMems_allowed:\t1\nMems_allowed_list:\t1\n");
    const Topology topology = machine.topology({57, 169});
    REQUIRE(topology.cpus.size() == 2);
    CHECK(place_of(topology, 169) == CpuPlace{.cpu = 169, .core = 57, .cache = 56, .socket = 1, .node = 1});
    CHECK(topology.memory_nodes == CpuList{1});
}

TEST_CASE("a machine that tells nothing has one node, and each CPU is a core") {
    const TemporaryFolder nothing;
    const Topology topology = read_topology({2, 3}, nothing.path());
    CHECK(topology.cpus == std::vector<CpuPlace>{{.cpu = 2, .core = 2, .cache = 2, .socket = 0, .node = 0},
                                                 {.cpu = 3, .core = 3, .cache = 2, .socket = 0, .node = 0}});
    CHECK(topology.memory_nodes.empty());
}

TEST_CASE("nonsense in sysfs is as if nothing were there") {
    Machine machine(kOneSocketCpus);
    machine.file("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "x-y\n")
        .file("sys/devices/system/cpu/cpu0/topology/physical_package_id", "-1\n")
        .file("sys/devices/system/cpu/cpu0/cache/index1/shared_cpu_list", "")
        .file("sys/devices/system/node/node0/cpulist", "0-")
        .file("sys/devices/system/node/has_memory", "?");
    CHECK(place_of(machine.topology({0}), 0) == CpuPlace{.cpu = 0});
}

// This machine's own: whatever it is, every CPU has its place.
TEST_CASE("the machine that the test runs on") {
    const auto own = read_small_file("/sys/devices/system/cpu/online", 4096);
    REQUIRE(own.has_value());
    const CpuList cpus = parse_cpu_list(*own).value();
    const Topology topology = read_topology(cpus);
    REQUIRE(topology.cpus.size() == cpus.size());
    for (const CpuPlace& place : topology.cpus) {
        CHECK(place.core <= place.cpu);
        CHECK(place.cache <= place.cpu);
    }
}

}  // namespace ddprun
