#include "launcher/plan/cpu_binding.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "tests/launcher/plan/machine_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

using Nodes = std::vector<std::optional<int>>;
using Texts = std::vector<std::string>;

const Nodes kDgxGpus = {0, 0, 0, 0, 1, 1, 1, 1};

Texts bound(CpuBind bind, const Topology& topology, int workers, Nodes gpus = {}) {
    const auto result =
        bind_cpus({.bind = bind, .cpus = topology.cpus, .workers = workers, .gpu_nodes = std::move(gpus)});
    if (const auto* wrong = std::get_if<std::string>(&result)) return {*wrong};
    Texts texts;
    for (const CpuList& cpus : std::get<std::vector<CpuList>>(result)) texts.push_back(cpu_list_text(cpus));
    return texts;
}

}  // namespace

TEST_CASE("node: all CPUs of the GPU's NUMA node, as torchrun has it") {
    const Topology dgx = Machine(kDgxCpus).topology();
    const Texts all = bound(CpuBind::numa, dgx, 8, kDgxGpus);
    CHECK(all[0] == "0-55,112-167");
    CHECK(all[3] == all[0]);
    CHECK(all[4] == "56-111,168-223");
    CHECK(all[7] == all[4]);
    // A mask may name the GPUs of the other socket first.
    CHECK(bound(CpuBind::numa, dgx, 2, {1, 0}) == Texts{"56-111,168-223", "0-55,112-167"});
}

TEST_CASE("socket: all NUMA nodes of the GPU's socket") {
    CHECK(bound(CpuBind::socket, Machine(kEpycCpus).topology(), 1, {2}) == Texts{"0-127"});
    CHECK(bound(CpuBind::socket, Machine(kInTurnCpus).topology(), 2, {1, 0}) ==
          Texts{"1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31", "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30"});
}

TEST_CASE("exclusive: whole cores, shared out among all GPUs of the node, the first ones get one more") {
    const Topology dgx = Machine(kDgxCpus).topology();
    const Texts all = bound(CpuBind::exclusive, dgx, 8, kDgxGpus);
    CHECK(all[0] == "0-13,112-125");
    CHECK(all[3] == "42-55,154-167");
    CHECK(all[4] == "56-69,168-181");
    // GPUs without a worker have their part, too.
    CHECK(bound(CpuBind::exclusive, dgx, 1, kDgxGpus) == Texts{"0-13,112-125"});
    CHECK(bound(CpuBind::exclusive, Machine("0 0 0-4 +5\n").topology(), 2, {0, 0}) ==
          Texts{"0-2,5-7", "3-4,8-9"});
}

TEST_CASE("exclusive refuses fewer cores than GPUs, cores lets them share") {
    const Topology limited = Machine(kDgxCpus).topology({0, 1, 112, 113});
    CHECK(bound(CpuBind::exclusive, limited, 4, {0, 0, 0, 0})[0] ==
          "--numa-binding exclusive: 4 GPUs or workers near NUMA node 0, but only 2 cores that this launcher "
          "may use (CPUs 0-1,112-113); --bind cores lets them share");
    CHECK(bound(CpuBind::cores, limited, 4, {0, 0, 0, 0}) == Texts{"0", "112", "1", "113"});
    CHECK(bound(CpuBind::cores, limited, 5) == Texts{"0", "0", "112", "1", "113"});
    CHECK(bound(CpuBind::exclusive, limited, 3)[0].find("3 GPUs or workers on this node, but only 2 cores") !=
          std::string::npos);
}

TEST_CASE("core-complex: one cache each, the larger ones first, taken in turn") {
    const Topology epyc = Machine(kEpycCpus).topology();
    CHECK(bound(CpuBind::core_complex, epyc, 3, {1, 1, 1}) ==
          Texts{"16-23,80-87", "24-31,88-95", "16-23,80-87"});
    const Topology limited = Machine(kEpycCpus).topology({16, 24, 25});
    CHECK(bound(CpuBind::core_complex, limited, 2, {1, 1}) == Texts{"24-25", "16"});
}

TEST_CASE("without GPUs workers are spread over the nodes, and cores are equal parts of all") {
    const Topology epyc = Machine(kEpycCpus).topology();
    CHECK(bound(CpuBind::numa, epyc, 4) ==
          Texts{"0-15,64-79", "16-31,80-95", "32-47,96-111", "48-63,112-127"});
    CHECK(bound(CpuBind::numa, epyc, 8)[3] == "16-31,80-95");
    CHECK(bound(CpuBind::numa, epyc, 1) == Texts{"0-15,64-79"});
    CHECK(bound(CpuBind::cores, epyc, 1) == Texts{"0-127"});
    CHECK(bound(CpuBind::cores, epyc, 3)[2] == "43-63,107-127");
    CHECK(bound(CpuBind::core_complex, epyc, 8)[3] == "24-31,88-95");
    CHECK(bound(CpuBind::cores, Machine(kInTurnCpus).topology(), 2) ==
          Texts{"0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30", "1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31"});
    CHECK(bound(CpuBind::exclusive, Machine(kOneSocketCpus).topology(), 3) == Texts{"0-5", "6-10", "11-15"});
    // In proportion to what may be used.
    const Topology limited = Machine(kInTurnCpus).topology({0, 2, 4, 6, 8, 10, 1});
    CHECK(bound(CpuBind::numa, limited, 3) == Texts{"0,2,4,6,8,10", "0,2,4,6,8,10", "0,2,4,6,8,10"});
    CHECK(bound(CpuBind::numa, limited, 7)[6] == "1");
}

TEST_CASE("a GPU whose node is unknown, or none of whose CPUs may be used, keeps no worker from starting") {
    const Topology limited = Machine(kDgxCpus).topology({0, 1, 2, 3});
    CHECK(bound(CpuBind::numa, limited, 2, {1, std::nullopt}) == Texts{"0-3", "0-3"});
    CHECK(bound(CpuBind::exclusive, limited, 2, {1, 1}) == Texts{"0-1", "2-3"});
}

TEST_CASE("more workers than GPUs share the places of their GPUs") {
    CHECK(bound(CpuBind::cores, Machine(kOneSocketCpus).topology(), 4, {0, 0}) ==
          Texts{"0-3", "4-7", "8-11", "12-15"});
    CHECK(bound(CpuBind::none, Machine(kOneSocketCpus).topology(), 2) == Texts{"", ""});
    CHECK(bound(CpuBind::cores, Topology{}, 2) == Texts{"", ""});
    CHECK(bound(CpuBind::cores, Machine(kOneSocketCpus).topology(), 0).empty());
}

TEST_CASE(
    "whatever the machine, no binding leaves the allowed CPUs, and cores are nobody else's if they suffice") {
    const unsigned seed = std::random_device{}();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::vector<Topology> machines = {Machine(kDgxCpus).topology(), Machine(kEpycCpus).topology(),
                                            Machine(kOneSocketCpus).topology(),
                                            Machine(kInTurnCpus).topology()};
    for (int turn = 0; turn < 300; ++turn) {
        Topology topology = machines[random() % machines.size()];
        std::erase_if(topology.cpus, [&](const CpuPlace&) { return random() % 3 == 0; });
        CpuList allowed;
        for (const CpuPlace& place : topology.cpus) allowed.push_back(place.cpu);
        const int workers = 1 + static_cast<int>(random() % 12);
        Nodes gpus(random() % 9);
        for (auto& node : gpus) node = static_cast<int>(random() % 4);
        for (const CpuBind bind : {CpuBind::cores, CpuBind::numa, CpuBind::socket, CpuBind::core_complex}) {
            const auto result = std::get<std::vector<CpuList>>(
                bind_cpus({.bind = bind, .cpus = topology.cpus, .workers = workers, .gpu_nodes = gpus}));
            std::map<int, int> users;
            for (const CpuList& cpus : result) {
                CHECK_FALSE(cpus.empty());
                CHECK(std::is_sorted(cpus.begin(), cpus.end()));
                for (const int cpu : cpus) ++users[cpu];
                CHECK(common_cpus(cpus, allowed) == cpus);
            }
            if (bind != CpuBind::cores || !gpus.empty() || users.size() < result.size()) continue;
            CHECK(std::all_of(users.begin(), users.end(), [](const auto& user) { return user.second == 1; }));
        }
    }
}

TEST_CASE("threads by the worker's own CPUs") {
    CHECK(threads_of({{}, {}}, 8) == std::vector<int>{4, 4});
    CHECK(threads_of({{0, 1, 2, 3}, {4, 5}}, 6) == std::vector<int>{4, 2});
    CHECK(threads_of({{0, 1, 2, 3}, {0, 1, 2, 3}, {4, 5}}, 6) == std::vector<int>{2, 2, 2});
    CHECK(threads_of({{0}, {0}, {0}}, 1) == std::vector<int>{1, 1, 1});
    // A quota that pays for a half.
    CHECK(threads_of({{0, 1, 2, 3}, {4, 5, 6, 7}}, 4) == std::vector<int>{2, 2});
    CHECK(threads_of({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}, 3) == std::vector<int>{1, 1, 1});
    // The rest of the machine is nobody's.
    CHECK(threads_of({{0, 1, 2, 3}}, 64) == std::vector<int>{4});
    CHECK(threads_of({}, 8).empty());
}

TEST_CASE("the words of --bind and --numa-binding") {
    CHECK(parse_bind("cores") == CpuBind::cores);
    CHECK(parse_bind("numa") == CpuBind::numa);
    CHECK(parse_bind("none") == CpuBind::none);
    CHECK_FALSE(parse_bind("node"));
    CHECK(parse_numa_binding("node") == CpuBind::numa);
    CHECK(parse_numa_binding("socket") == CpuBind::socket);
    CHECK(parse_numa_binding("exclusive") == CpuBind::exclusive);
    CHECK(parse_numa_binding("core-complex") == CpuBind::core_complex);
    CHECK_FALSE(parse_numa_binding("numa"));
}

TEST_CASE("threads for each worker that is not bound") {
    CHECK(omp_threads(8, 2) == 4);
    CHECK(omp_threads(8, 3) == 2);
    CHECK(omp_threads(2, 8) == 1);
    CHECK(omp_threads(7, 1) == 7);
}

}  // namespace ddprun
