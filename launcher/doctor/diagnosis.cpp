#include "launcher/doctor/diagnosis.hpp"

#include <fmt/core.h>

namespace ddprun::inline launch {

NodeReport diagnose(const Surroundings& seen) {
    NodeReport report{seen.version, seen.host, {}};
    const auto add = [&report](Finding finding) { report.findings.push_back(std::move(finding)); };
    add(ok_finding("version", fmt::format("ddprun {}, compiler {}, glibc {}, Linux {}, {}", seen.version,
                                          seen.compiler, seen.glibc, seen.kernel, seen.machine)));
    add(clock_finding(seen.clock));
    if (seen.name) add(name_finding(seen.host, *seen.name, seen.addresses));
    add(addresses_finding(seen.addresses, seen.idle_interfaces));
    for (const PortFacts& port : seen.ports) add(port_finding(port));
    add(proxy_finding(seen.proxies));
    add(gpu_finding(seen.gpu));
    add(driver_finding(seen.gpu));
    add(cpu_finding(seen.capacity));
    add(memory_finding(seen.capacity));
    add(shared_memory_finding(seen.shared_memory));
    add(open_files_finding(seen.limits));
    add(locked_memory_finding(seen.limits));
    add(processes_finding(seen.limits));
    add(core_finding(seen.limits));
    for (const FolderFacts& folder : seen.folders) add(folder_finding(folder));
    if (seen.python) {
        add(python_finding(*seen.python));
        add(torch_finding(*seen.python));
    }
    add(proc_finding(seen.sees_processes));
    return report;
}

}  // namespace ddprun::inline launch
