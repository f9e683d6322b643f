// Machines for the tests of placement: a few lines of text become the files of sysfs and /proc that tell of
// one.
#pragma once

#include <string>

#include "launcher/plan/cpu_list.hpp"
#include "launcher/plan/topology.hpp"
#include "tests/launcher/worker_fixture.hpp"

namespace ddprun {

// A table with one line for each group of cores that share a last-level cache:
//
//     NODE SOCKET FIRST-LAST[/STEP] [+DISTANCE]
//
// where the second thread of each core is DISTANCE further; without it cores have one thread.
class Machine {
  public:
    explicit Machine(const std::string& table);

    const std::filesystem::path& root() const { return folder_.path(); }
    const CpuList& all_cpus() const { return cpus_; }
    Topology topology() const { return topology(cpus_); }
    Topology topology(const CpuList& allowed) const { return read_topology(allowed, root()); }

    // PATH is the folder below /sys/devices: "pci0000:15/0000:15:01.0/0000:1b:00.0".
    Machine& nvidia(int minor, const std::string& path, int node, const std::string& uuid,
                    const std::string& model = "NVIDIA H100");
    Machine& amd(int number, const std::string& path, int node, unsigned location, std::uint64_t id);
    Machine& intel(const std::string& path, int node, const std::string& pci_class = "0x038000");
    Machine& nic(const std::string& name, const std::string& path, int node,
                 const std::string& state = "4: ACTIVE");

    Machine& file(const std::string& path, const std::string& text);

  private:
    // Two thousand files: in memory they take a tenth of the time.
    static std::filesystem::path memory_or_disk();
    std::string pci_device(const std::string& path, int node);

    TemporaryFolder folder_{memory_or_disk()};
    CpuList cpus_;
};

// Two sockets of 56 cores with two threads, and eight GPUs, each with a network adapter at its own switch.
Machine& as_dgx(Machine& machine);
inline constexpr const char* kDgxCpus = "0 0 0-55 +112\n1 1 56-111 +112\n";
// One socket of the EPYC family set to four NUMA nodes: two caches of eight cores in each.
inline constexpr const char* kEpycCpus =
    "0 0 0-7 +64\n0 0 8-15 +64\n1 0 16-23 +64\n1 0 24-31 +64\n"
    "2 0 32-39 +64\n2 0 40-47 +64\n3 0 48-55 +64\n3 0 56-63 +64\n";
inline constexpr const char* kOneSocketCpus = "0 0 0-15\n";
// Many servers count their CPUs in turn over the sockets.
inline constexpr const char* kInTurnCpus = "0 0 0-14/2 +16\n1 1 1-15/2 +16\n";

}  // namespace ddprun
