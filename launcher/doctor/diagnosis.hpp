// diagnose says what the surroundings of a node mean for a job there. Pure.
#pragma once

#include "launcher/doctor/node_report.hpp"
#include "launcher/doctor/surroundings.hpp"

namespace ddprun {
inline namespace launch {

// kLittleSharedMemory: with less than this free in /dev/shm, PyTorch's DataLoader may fail. Containers have
// less by default.
inline constexpr std::uint64_t kLittleSharedMemory = 256 << 20;
// kLeastSharedMemory: with less than this free, not even one small segment fits.
inline constexpr std::uint64_t kLeastSharedMemory = 1 << 20;

inline constexpr std::uint64_t kLittleFolderSpace = 1 << 30;
inline constexpr std::uint64_t kLeastFolderSpace = 1 << 20;
inline constexpr std::uint64_t kLeastFolderFiles = 100;

inline constexpr std::uint64_t kFewOpenFiles = 1024;
inline constexpr std::uint64_t kFewProcesses = 4096;
inline constexpr std::uint64_t kLeastProcesses = 64;
inline constexpr std::uint64_t kLittleMemory = 1 << 30;
inline constexpr std::uint64_t kLeastMemory = 64 << 20;

// kNamesShown: names of a list that a text has at most.
inline constexpr std::size_t kNamesShown = 8;

Finding clock_finding(const ClockFacts& clock);
Finding gpu_finding(const GpuFacts& gpu);
Finding driver_finding(const GpuFacts& gpu);
Finding shared_memory_finding(const SpaceFacts& space);
Finding cpu_finding(const CapacityFacts& capacity);
Finding memory_finding(const CapacityFacts& capacity);
Finding open_files_finding(const LimitsFacts& limits);
Finding locked_memory_finding(const LimitsFacts& limits);
Finding processes_finding(const LimitsFacts& limits);
Finding core_finding(const LimitsFacts& limits);
Finding proc_finding(bool sees_processes);

Finding name_finding(const std::string& host, const NameFacts& name, const std::vector<LocalAddress>& own);
Finding addresses_finding(const std::vector<LocalAddress>& own, const std::vector<std::string>& idle);
Finding port_finding(const PortFacts& port);
Finding proxy_finding(const std::vector<std::string>& proxies);

Finding folder_finding(const FolderFacts& folder);
Finding python_finding(const PythonFacts& python);
Finding torch_finding(const PythonFacts& python);

// Returns all findings, in the order in which people read them.
NodeReport diagnose(const Surroundings& seen);

}  // namespace launch
}  // namespace ddprun
