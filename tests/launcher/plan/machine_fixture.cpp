#include "tests/launcher/plan/machine_fixture.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace ddprun {

namespace fs = std::filesystem;

Machine::Machine(const std::string& table) {
    std::map<int, CpuList> nodes;
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);) {
        int node = 0, socket = 0, first = 0, last = 0, step = 1, distance = 0;
        std::istringstream words(line);
        char mark = '\0';
        words >> node >> socket >> first >> mark >> last;
        require(!words.fail(), "a machine's line is NODE SOCKET FIRST-LAST");
        while (words >> mark) words >> (mark == '/' ? step : distance);
        CpuList group;
        for (int core = first; core <= last; core += step) {
            group.push_back(core);
            if (distance > 0) group.push_back(core + distance);
        }
        std::sort(group.begin(), group.end());
        for (int core = first; core <= last; core += step) {
            const CpuList threads = distance > 0 ? CpuList{core, core + distance} : CpuList{core};
            for (const int cpu : threads) {
                const std::string folder = fmt::format("sys/devices/system/cpu/cpu{}/", cpu);
                file(folder + "topology/thread_siblings_list", cpu_list_text(threads) + "\n");
                file(folder + "topology/physical_package_id", fmt::format("{}\n", socket));
                file(folder + "cache/index0/level", "1\n").file(folder + "cache/index0/type", "Data\n");
                file(folder + "cache/index0/shared_cpu_list", cpu_list_text(threads) + "\n");
                file(folder + "cache/index1/level", "3\n").file(folder + "cache/index1/type", "Unified\n");
                file(folder + "cache/index1/shared_cpu_list", cpu_list_text(group) + "\n");
                file(folder + "cache/index2/level", "4\n")
                    .file(folder + "cache/index2/type", "Instruction\n");
                file(folder + "cache/index2/shared_cpu_list", fmt::format("{}\n", cpu));
            }
        }
        for (const int cpu : group) {
            nodes[node].push_back(cpu);
            cpus_.push_back(cpu);
        }
    }
    std::sort(cpus_.begin(), cpus_.end());
    CpuList numbers;
    for (auto& [node, cpus] : nodes) {
        std::sort(cpus.begin(), cpus.end());
        file(fmt::format("sys/devices/system/node/node{}/cpulist", node), cpu_list_text(cpus) + "\n");
        numbers.push_back(node);
    }
    file("sys/devices/system/node/has_memory", cpu_list_text(numbers) + "\n");
    file("proc/self/status", fmt::format("Name:\tx\nMems_allowed_list:\t{}\n", cpu_list_text(numbers)));
}

fs::path Machine::memory_or_disk() {
    const char* memory = "/dev/shm";
    return ::access(memory, W_OK) == 0 ? fs::path(memory) : fs::temp_directory_path();
}

Machine& Machine::file(const std::string& path, const std::string& text) {
    fs::create_directories((root() / path).parent_path());
    folder_.file(path, text);
    return *this;
}

std::string Machine::pci_device(const std::string& path, int node) {
    file("sys/devices/" + path + "/numa_node", fmt::format("{}\n", node));
    const fs::path link = root() / "sys/bus/pci/devices" / fs::path(path).filename();
    fs::create_directories(link.parent_path());
    fs::create_directory_symlink(root() / "sys/devices" / path, link);
    return link.filename();
}

Machine& Machine::nvidia(int minor, const std::string& path, int node, const std::string& uuid,
                         const std::string& model) {
    const std::string address = pci_device(path, node);
    file(fmt::format("dev/nvidia{}", minor), "");
    return file("proc/driver/nvidia/gpus/" + address + "/information",
                fmt::format("Model: \t\t {}\nIRQ:   \t\t 18\nGPU UUID: \t {}\nBus Type: \t PCIe\n"
                            "Device Minor: \t {}\nGPU Firmware: \t 570\n",
                            model, uuid, minor));
}

Machine& Machine::amd(int number, const std::string& path, int node, unsigned location, std::uint64_t id) {
    pci_device(path, node);
    file("dev/kfd", "");
    return file(fmt::format("sys/class/kfd/kfd/topology/nodes/{}/properties", number),
                fmt::format("cpu_cores_count 0\nsimd_count 304\nlocation_id {}\ndomain 0\nunique_id {}\n",
                            location, id));
}

Machine& Machine::intel(const std::string& path, int node, const std::string& pci_class) {
    const std::string address = pci_device(path, node);
    file("dev/dri/card0", "");
    file("sys/devices/" + path + "/vendor", "0x8086\n");
    return file("sys/devices/" + path + "/class", pci_class + "\n");
}

Machine& Machine::nic(const std::string& name, const std::string& path, int node, const std::string& state) {
    pci_device(path, node);
    file("sys/class/infiniband/" + name + "/ports/1/state", state + "\n");
    fs::create_directory_symlink(root() / "sys/devices" / path,
                                 root() / "sys/class/infiniband" / name / "device");
    return *this;
}

Machine& as_dgx(Machine& machine) {
    for (int i = 0; i < 8; ++i) {
        const std::string root_port = fmt::format("pci0000:{0}0/0000:{0}0:01.0/0000:{0}1:00.0", i + 1);
        machine.nvidia(i, fmt::format("{0}/0000:{1}2:00.0/0000:{1}3:00.0", root_port, i + 1), i / 4,
                       fmt::format("GPU-{0}{0}{0}{0}-0000", i));
        // Counted the other way round, so that no name is right by chance.
        machine.nic(fmt::format("mlx5_{}", 7 - i),
                    fmt::format("{0}/0000:{1}2:01.0/0000:{1}4:00.0", root_port, i + 1), i / 4);
    }
    return machine;
}

}  // namespace ddprun
