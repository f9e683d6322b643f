#include <fmt/core.h>

#include <cstring>

#include "launcher/doctor/diagnosis.hpp"
#include "launcher/plan/node_resources.hpp"
#include "rendezvous/system/number_text.hpp"

namespace ddprun::inline launch {
namespace {

const char* const kShmRemedy =
    "give the container more (docker run --shm-size=8g, a medium: Memory volume at /dev/shm), or mount -o "
    "remount,size=50% /dev/shm";

std::string limit_text(std::optional<std::uint64_t> limit) {
    return limit ? std::to_string(*limit) : "unlimited";
}

bool is_below(std::optional<std::uint64_t> limit, std::uint64_t least) { return limit && *limit < least; }

std::string vendor_name(GpuVendor vendor) {
    switch (vendor) {
        case GpuVendor::nvidia: return "NVIDIA";
        case GpuVendor::amd: return "AMD";
        case GpuVendor::intel: return "Intel";
    }
    return "";
}

}  // namespace

Finding clock_finding(const ClockFacts& clock) {
    const std::string remedy =
        "on the machine itself: timedatectl set-ntp true, or start chronyd; otherwise times in logs of "
        "several "
        "nodes do not compare";
    if (!clock.is_synchronised)
        return warning_finding("clock", "whether it is synchronised cannot be told: " + clock.why, remedy);
    if (*clock.is_synchronised) return ok_finding("clock", "synchronised, as the kernel says (adjtimex)");
    return warning_finding("clock", "not synchronised, as the kernel says (adjtimex)", remedy);
}

Finding gpu_finding(const GpuFacts& gpu) {
    const NodeDevices& devices = gpu.devices;
    if (!devices.contradiction.empty())
        return problem_finding("gpus", devices.contradiction, "unset one of the two variables");
    if (!devices.remark.empty())
        return warning_finding("gpus", devices.remark,
                               fmt::format("correct {}, or unset it", devices.variable));
    if (!gpu.gpus.gpus.empty() && devices.count == 0)
        return warning_finding(
            "gpus", fmt::format("none of the {} GPUs may be used ({})", gpu.gpus.gpus.size(), devices.source),
            fmt::format("unset {} if the job is to have GPUs", devices.variable));
    if (devices.count == 0) return ok_finding("gpus", "none");
    return ok_finding("gpus", fmt::format("{} of {} from {} ({})", devices.count, gpu.gpus.gpus.size(),
                                          vendor_name(gpu.gpus.vendor), devices.source));
}

Finding driver_finding(const GpuFacts& gpu) {
    const bool has_nvidia = !gpu.gpus.gpus.empty() && gpu.gpus.vendor == GpuVendor::nvidia;
    if (has_nvidia && gpu.driver.empty())
        return warning_finding("driver", "there are NVIDIA GPUs, but /proc shows no driver of NVIDIA's",
                               "load the module nvidia (nvidia-smi does), or start the container by NVIDIA's "
                               "runtime");
    if (gpu.driver.empty()) return ok_finding("driver", "none of NVIDIA's is loaded");
    if (!has_nvidia)
        return warning_finding(
            "driver",
            fmt::format("NVIDIA's driver {} is loaded, but no GPU of it can be seen here", gpu.driver),
            "ask the scheduler for GPUs (--gres=gpu:N), or start the container with --gpus "
            "all");
    return ok_finding("driver", "NVIDIA's " + gpu.driver);
}

Finding shared_memory_finding(const SpaceFacts& space) {
    if (space.error_number != 0)
        return problem_finding("shared_memory",
                               fmt::format("/dev/shm cannot be used: {}", std::strerror(space.error_number)),
                               "mount -t tmpfs tmpfs /dev/shm");
    const std::string text =
        fmt::format("{} of {} in /dev/shm are free", size_text(space.free), size_text(space.size));
    if (space.free < kLeastSharedMemory)
        return problem_finding("shared_memory", text,
                               fmt::format("remove what is left there (ls -l /dev/shm), or {}", kShmRemedy));
    if (space.free < kLittleSharedMemory) return warning_finding("shared_memory", text, kShmRemedy);
    return ok_finding("shared_memory", text);
}

Finding cpu_finding(const CapacityFacts& capacity) {
    const int usable = usable_cpus(capacity.affinity_cpus, capacity.cpu_quota);
    if (!capacity.cpu_quota || *capacity.cpu_quota >= capacity.affinity_cpus)
        return ok_finding("cpus", fmt::format("{} usable, no quota below that", usable));
    const std::string text = fmt::format("{} to run on, of which the control group pays for {:.2f}",
                                         capacity.affinity_cpus, *capacity.cpu_quota);
    if (*capacity.cpu_quota >= 1) return ok_finding("cpus", text);
    return warning_finding("cpus", text,
                           "give the container a whole CPU (docker run --cpus, resources.limits.cpu)");
}

Finding memory_finding(const CapacityFacts& capacity) {
    const std::string text = fmt::format("{}, the least of the machine's, the control groups' and ulimit -v",
                                         size_text(capacity.memory));
    const std::string remedy =
        "ask the scheduler for more (--mem), give the container more (docker run --memory, "
        "resources.limits.memory), or raise ulimit -v";
    if (capacity.memory < kLeastMemory) return problem_finding("memory", text, remedy);
    if (capacity.memory < kLittleMemory) return warning_finding("memory", text, remedy);
    return ok_finding("memory", text);
}

Finding open_files_finding(const LimitsFacts& limits) {
    const LimitFacts& files = limits.open_files;
    const std::string text = fmt::format("{} for workers, {} for ddprun (ulimit -Sn, -Hn)",
                                         limit_text(files.soft), limit_text(files.hard));
    const std::string remedy = "ulimit -n 65536, LimitNOFILE= of the service, or nofile in limits.conf";
    if (is_below(files.hard, limits.descriptors_needed))
        return problem_finding("open_files",
                               fmt::format("{}; ddprun needs {}", text, limits.descriptors_needed), remedy);
    if (is_below(files.soft, kFewOpenFiles)) return warning_finding("open_files", text, remedy);
    return ok_finding("open_files", text);
}

Finding locked_memory_finding(const LimitsFacts& limits) {
    const auto& soft = limits.locked_memory.soft;
    const std::string text = soft ? size_text(*soft) + " (ulimit -l)" : "unlimited (ulimit -l)";
    if (!soft || !limits.has_rdma) return ok_finding("locked_memory", text);
    return warning_finding(
        "locked_memory", text + ", and there are InfiniBand or RoCE devices",
        "ulimit -l unlimited, LimitMEMLOCK=infinity of the service, or docker run --ulimit "
        "memlock=-1");
}

Finding processes_finding(const LimitsFacts& limits) {
    const LimitFacts& processes = limits.processes;
    const std::string text =
        fmt::format("{} for this user, threads included (ulimit -u)", limit_text(processes.soft));
    const std::string remedy = "ulimit -u unlimited, TasksMax= of the service, or nproc in limits.conf";
    if (limits.is_root) return ok_finding("processes", text + "; root's are not counted");
    if (is_below(processes.soft, kLeastProcesses)) return problem_finding("processes", text, remedy);
    if (is_below(processes.soft, kFewProcesses)) return warning_finding("processes", text, remedy);
    return ok_finding("processes", text);
}

Finding core_finding(const LimitsFacts& limits) {
    const auto& soft = limits.core.soft;
    if (!soft) return ok_finding("core_files", "of any size (ulimit -c)");
    return ok_finding("core_files", *soft == 0 ? std::string("none are written (ulimit -c 0)")
                                               : size_text(*soft) + " at most (ulimit -c)");
}

Finding proc_finding(bool sees_processes) {
    if (sees_processes) return ok_finding("proc", "/proc shows this node's processes");
    return warning_finding(
        "proc",
        "/proc does not show this process: what workers start in sessions of their own can "
        "be neither found nor ended",
        "mount -t proc proc /proc");
}

}  // namespace ddprun::inline launch
