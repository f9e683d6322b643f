#include "launcher/doctor/diagnosis.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rendezvous/system/number_text.hpp"
#include "rendezvous/system/resource_limits.hpp"

namespace ddprun::inline launch {
namespace {

// A thing of which a node may have too little: below `least` a job fails, below `little` some jobs will miss it.
struct Amount {
    const char* topic;
    std::uint64_t least;
    std::uint64_t little;
    const char* remedy;
};

constexpr const char* kShmRemedy =
    "give the container more (docker run --shm-size=8g, a medium: Memory volume at /dev/shm), or mount -o "
    "remount,size=50% /dev/shm";

constexpr Amount kSharedMemory{"shared_memory", kLeastSharedMemory, kLittleSharedMemory, kShmRemedy};
constexpr Amount kMemory{
    "memory", kLeastMemory, kLittleMemory,
    "ask the scheduler for more (--mem), give the container more (docker run --memory, resources.limits.memory), or raise ulimit -v"};
constexpr Amount kProcesses{"processes", kLeastProcesses, kFewProcesses,
                            "ulimit -u unlimited, TasksMax= of the service, or nproc in limits.conf"};

// An amount of nothing stands for one without a limit.
Finding amount_finding(const Amount& row, std::optional<std::uint64_t> amount, std::string text) {
    if (amount && *amount < row.least) return problem_finding(row.topic, std::move(text), row.remedy);
    if (amount && *amount < row.little) return warning_finding(row.topic, std::move(text), row.remedy);
    return ok_finding(row.topic, std::move(text));
}

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
        "on the machine itself: timedatectl set-ntp true, or start chronyd; otherwise times in logs of several nodes do not compare";
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
    return amount_finding(kSharedMemory, space.free, text);
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
    return amount_finding(
        kMemory, capacity.memory,
        size_text(capacity.memory) + ", the least of the machine's, the control groups' and ulimit -v");
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
    const auto& soft = limits.processes.soft;
    const std::string text = fmt::format("{} for this user, threads included (ulimit -u)", limit_text(soft));
    if (limits.is_root) return ok_finding("processes", text + "; root's are not counted");
    return amount_finding(kProcesses, soft, text);
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

namespace {

// "eth0, eth1 and 7 more"
std::string names_text(const std::vector<std::string>& names) {
    std::string text;
    const std::size_t shown = std::min(names.size(), kNamesShown);
    for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + names[i];
    return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

// Returns the first address by which others may reach this node; empty: none.
std::string outward_address(const std::vector<LocalAddress>& own) {
    const auto found =
        std::find_if(own.begin(), own.end(), [](const LocalAddress& one) { return !one.is_loopback; });
    return found == own.end() ? "" : found->address;
}

bool is_own(const std::string& address, const std::vector<LocalAddress>& own) {
    return std::any_of(own.begin(), own.end(),
                       [&address](const LocalAddress& one) { return one.address == address; });
}

}  // namespace

Finding name_finding(const std::string& host, const NameFacts& name, const std::vector<LocalAddress>& own) {
    const std::string address = outward_address(own);
    const std::string by_number = fmt::format("give --master-addr {} where this is node 0",
                                              address.empty() ? "an address of this node" : address);
    if (name.end == AnswerEnd::hangs)
        return warning_finding("host_name", "who " + host + " is was not answered in time",
                               by_number + ", or correct the name servers in /etc/resolv.conf");
    if (name.addresses.empty())
        return warning_finding("host_name", fmt::format("{} stands for no address: {}", host, name.why),
                               by_number + ", or add a line to /etc/hosts of all nodes");
    const std::string text = fmt::format("{} stands for {}", host, names_text(name.addresses));
    if (std::all_of(name.addresses.begin(), name.addresses.end(), is_loopback_address))
        return warning_finding("host_name", text + ", which leads every other node to itself",
                               fmt::format("{}, or write that address in place of {} in /etc/hosts",
                                           by_number, name.addresses.front()));
    const bool leads_here =
        std::any_of(name.addresses.begin(), name.addresses.end(),
                    [&own](const std::string& one) { return !is_loopback_address(one) && is_own(one, own); });
    if (!leads_here)
        return warning_finding("host_name", text + ", which is no address of this node",
                               by_number + "; where addresses are translated on the way, --listen any");
    return ok_finding("host_name", text);
}

Finding addresses_finding(const std::vector<LocalAddress>& own, const std::vector<std::string>& idle) {
    std::vector<std::string> outward;
    bool has_loopback = false;
    for (const LocalAddress& one : own) {
        has_loopback = has_loopback || one.is_loopback;
        if (!one.is_loopback) outward.push_back(fmt::format("{} ({})", one.address, one.interface));
    }
    const std::string rest = idle.empty() ? "" : "; down or without an address: " + names_text(idle);
    if (!has_loopback)
        return problem_finding("addresses", "the loopback interface has no address" + rest,
                               "ip link set lo up");
    if (outward.empty())
        return warning_finding("addresses", "only those of loopback: no other node can reach this one" + rest,
                               "for several nodes: ip link set DEVICE up, and an address for it");
    return ok_finding("addresses", names_text(outward) + rest);
}

Finding port_finding(const PortFacts& port) {
    const std::string about = std::to_string(port.port);
    if (port.error_number == 0) return ok_finding("port", "free", about);
    std::string text = port.error_number == EADDRINUSE ? "taken" : std::strerror(port.error_number);
    if (!port.holder.empty()) text += " by " + port.holder;
    const std::string remedy = "give another one by --master-port, or by --rdzv-endpoint HOST:PORT";
    return port.is_needed ? problem_finding("port", text, remedy, about)
                          : warning_finding("port", text, remedy, about);
}

Finding proxy_finding(const std::vector<std::string>& proxies) {
    if (proxies.empty()) return ok_finding("proxy", "no variable names one");
    return ok_finding("proxy", fmt::format("{} set; ddprun goes through no proxy, workers may",
                                           names_text(proxies) + (proxies.size() == 1 ? " is" : " are")));
}

namespace {

std::string elsewhere(const FolderFacts& folder) {
    return folder.role == "logs" ? "another folder for --log-dir" : "another folder by TMPDIR";
}

}  // namespace

Finding folder_finding(const FolderFacts& folder) {
    const std::string& about = folder.path;
    const std::string other = folder.is_written ? elsewhere(folder) : "start ddprun in another folder";
    const bool is_above = !folder.tried.empty() && folder.tried != folder.path;
    const std::string what =
        folder.role + ": " + (is_above ? fmt::format("is to be made in {}: ", folder.tried) : "");
    if (folder.end == AnswerEnd::hangs)
        return problem_finding("folder", what + "hangs; the file system does not answer",
                               "see which server it is on (/proc/mounts); " + other, about);
    if (folder.end == AnswerEnd::failed)
        return warning_finding("folder", what + "the process that was to look at it has died",
                               "see whether the node is short of memory or processes", about);
    if (!folder.failed_step.empty()) {
        const bool is_full = folder.error_number == ENOSPC || folder.error_number == EDQUOT;
        const std::string text =
            fmt::format("{}{}: {}", what, folder.failed_step, std::strerror(folder.error_number));
        return problem_finding("folder", text,
                               is_full ? "remove what is no longer needed, or " + other
                                       : "correct its owner or its mode (ls -ld), or " + other,
                               about);
    }
    if (!folder.is_written) return ok_finding("folder", what + "can be reached", about);
    const std::string text =
        fmt::format("{}{} of {} are free", what, size_text(folder.free), size_text(folder.size));
    const std::string remedy = "remove what is no longer needed, or " + other;
    if (folder.counts_files && folder.free_files < kLeastFolderFiles)
        return warning_finding(
            "folder", fmt::format("{}, but for {} more files only", text, folder.free_files), remedy, about);
    if (folder.free < kLeastFolderSpace) return problem_finding("folder", text, remedy, about);
    if (folder.free < kLittleFolderSpace) return warning_finding("folder", text, remedy, about);
    return ok_finding("folder", text, about);
}

Finding python_finding(const PythonFacts& python) {
    if (python.end == AnswerEnd::hangs)
        return problem_finding(
            "python",
            python.file.empty() ? python.wanted + " is looked for, which hangs" : python.file + " hangs",
            "see on which servers the folders of PATH are (/proc/mounts), or name another Python by "
            "PYTHON_EXEC");
    if (python.file.empty())
        return warning_finding("python", python.wanted + " is not on PATH",
                               "activate the environment that has it, or name it by PYTHON_EXEC; programs "
                               "that are not for Python need none");
    if (python.version.empty())
        return problem_finding("python", python.file + " does not run a line of Python",
                               fmt::format("try {} -c pass; name another one by PYTHON_EXEC", python.file));
    return ok_finding("python", fmt::format("{}, {}", python.file, python.version));
}

Finding torch_finding(const PythonFacts& python) {
    if (python.torch.empty())
        return ok_finding("pytorch", python.version.empty() ? "not looked for, without Python"
                                                            : "none that this Python finds");
    return ok_finding("pytorch", python.torch);
}

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
