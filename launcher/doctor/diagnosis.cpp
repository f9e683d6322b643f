#include "launcher/doctor/diagnosis.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "rendezvous/system/resource_limits.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr auto kFine = FindingState::ok;
constexpr auto kWarns = FindingState::warning;
constexpr auto kFails = FindingState::problem;

constexpr const char* kShmRemedy =
    "give the container more (docker run --shm-size=8g, a medium: Memory volume at /dev/shm), or mount -o remount,size=50% /dev/shm";

// A row of a finding: where it holds, what that means, what is said, and what helps.
struct FindingRow {
    bool holds;
    FindingState state;
    std::string text;
    std::string remedy = {};
};

// Makes the finding of the first row that holds; the last one always does.
Finding judged(std::string topic, std::string about, std::initializer_list<FindingRow> rows) {
    const FindingRow& row =
        *std::find_if(rows.begin(), rows.end() - 1, [](const auto& one) { return one.holds; });
    return {std::move(topic), std::move(about), row.state, row.text, row.remedy};
}

// Judges a thing of which a node may have too little: below `least` a job fails, below `little` some jobs
// will miss it. An amount of nothing stands for one without a limit.
Finding amount_finding(const char* topic, std::optional<std::uint64_t> amount, std::uint64_t least,
                       std::uint64_t little, const std::string& text, const char* remedy) {
    return judged(topic, "",
                  {{amount && *amount < least, kFails, text, remedy},
                   {amount && *amount < little, kWarns, text, remedy},
                   {true, kFine, text}});
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

Finding clock_finding(const ClockFacts& clock) {
    const std::string remedy =
        "on the machine itself: timedatectl set-ntp true, or start chronyd; otherwise times in logs of several nodes do not compare";
    return judged(
        "clock", "",
        {{!clock.is_synchronised, kWarns, "whether it is synchronised cannot be told: " + clock.why, remedy},
         {clock.is_synchronised == true, kFine, "synchronised, as the kernel says (adjtimex)"},
         {true, kWarns, "not synchronised, as the kernel says (adjtimex)", remedy}});
}

Finding gpu_finding(const GpuFacts& gpu) {
    const NodeDevices& devices = gpu.devices;
    const std::size_t all = gpu.gpus.gpus.size();
    return judged(
        "gpus", "",
        {{!devices.contradiction.empty(), kFails, devices.contradiction, "unset one of the two variables"},
         {!devices.remark.empty(), kWarns, devices.remark,
          fmt::format("correct {}, or unset it", devices.variable)},
         {all > 0 && devices.count == 0, kWarns,
          fmt::format("none of the {} GPUs may be used ({})", all, devices.source),
          fmt::format("unset {} if the job is to have GPUs", devices.variable)},
         {devices.count == 0, kFine, "none"},
         {true, kFine,
          fmt::format("{} of {} from {} ({})", devices.count, all, vendor_name(gpu.gpus.vendor),
                      devices.source)}});
}

Finding driver_finding(const GpuFacts& gpu) {
    const bool has_nvidia = !gpu.gpus.gpus.empty() && gpu.gpus.vendor == GpuVendor::nvidia;
    return judged(
        "driver", "",
        {{has_nvidia && gpu.driver.empty(), kWarns,
          "there are NVIDIA GPUs, but /proc shows no driver of NVIDIA's",
          "load the module nvidia (nvidia-smi does), or start the container by NVIDIA's runtime"},
         {gpu.driver.empty(), kFine, "none of NVIDIA's is loaded"},
         {!has_nvidia, kWarns,
          fmt::format("NVIDIA's driver {} is loaded, but no GPU of it can be seen here", gpu.driver),
          "ask the scheduler for GPUs (--gres=gpu:N), or start the container with --gpus all"},
         {true, kFine, "NVIDIA's " + gpu.driver}});
}

Finding shared_memory_finding(const SpaceFacts& space) {
    const std::string text =
        fmt::format("{} of {} in /dev/shm are free", size_text(space.free), size_text(space.size));
    return judged("shared_memory", "",
                  {{space.error_number != 0, kFails,
                    fmt::format("/dev/shm cannot be used: {}", std::strerror(space.error_number)),
                    "mount -t tmpfs tmpfs /dev/shm"},
                   {space.free < kLeastSharedMemory, kFails, text,
                    fmt::format("remove what is left there (ls -l /dev/shm), or {}", kShmRemedy)},
                   {space.free < kLittleSharedMemory, kWarns, text, kShmRemedy},
                   {true, kFine, text}});
}

Finding cpu_finding(const CapacityFacts& capacity) {
    const double quota = capacity.cpu_quota.value_or(capacity.affinity_cpus);
    const std::string text = fmt::format("{} to run on, of which the control group pays for {:.2f}",
                                         capacity.affinity_cpus, quota);
    return judged(
        "cpus", "",
        {{quota >= capacity.affinity_cpus, kFine,
          fmt::format("{} usable, no quota below that",
                      usable_cpus(capacity.affinity_cpus, capacity.cpu_quota))},
         {quota >= 1, kFine, text},
         {true, kWarns, text, "give the container a whole CPU (docker run --cpus, resources.limits.cpu)"}});
}

Finding memory_finding(const CapacityFacts& capacity) {
    return amount_finding(
        "memory", capacity.memory, kLeastMemory, kLittleMemory,
        size_text(capacity.memory) + ", the least of the machine's, the control groups' and ulimit -v",
        "ask the scheduler for more (--mem), give the container more (docker run --memory, resources.limits.memory), or raise ulimit -v");
}

Finding open_files_finding(const LimitsFacts& limits) {
    const LimitFacts& files = limits.open_files;
    const std::string text = fmt::format("{} for workers, {} for ddprun (ulimit -Sn, -Hn)",
                                         limit_text(files.soft), limit_text(files.hard));
    const std::string remedy = "ulimit -n 65536, LimitNOFILE= of the service, or nofile in limits.conf";
    return judged("open_files", "",
                  {{is_below(files.hard, limits.descriptors_needed), kFails,
                    fmt::format("{}; ddprun needs {}", text, limits.descriptors_needed), remedy},
                   {is_below(files.soft, kFewOpenFiles), kWarns, text, remedy},
                   {true, kFine, text}});
}

Finding locked_memory_finding(const LimitsFacts& limits) {
    const auto& soft = limits.locked_memory.soft;
    const std::string text = soft ? size_text(*soft) + " (ulimit -l)" : "unlimited (ulimit -l)";
    return judged(
        "locked_memory", "",
        {{!soft || !limits.has_rdma, kFine, text},
         {true, kWarns, text + ", and there are InfiniBand or RoCE devices",
          "ulimit -l unlimited, LimitMEMLOCK=infinity of the service, or docker run --ulimit memlock=-1"}});
}

Finding processes_finding(const LimitsFacts& limits) {
    const auto& soft = limits.processes.soft;
    const std::string text = fmt::format("{} for this user, threads included (ulimit -u)", limit_text(soft));
    if (limits.is_root) return ok_finding("processes", text + "; root's are not counted");
    return amount_finding("processes", soft, kLeastProcesses, kFewProcesses, text,
                          "ulimit -u unlimited, TasksMax= of the service, or nproc in limits.conf");
}

Finding core_finding(const LimitsFacts& limits) {
    const auto& soft = limits.core.soft;
    return judged("core_files", "",
                  {{!soft, kFine, "of any size (ulimit -c)"},
                   {soft == 0U, kFine, "none are written (ulimit -c 0)"},
                   {true, kFine, size_text(soft.value_or(0)) + " at most (ulimit -c)"}});
}

Finding proc_finding(bool sees_processes) {
    return judged(
        "proc", "",
        {{sees_processes, kFine, "/proc shows this node's processes"},
         {true, kWarns,
          "/proc does not show this process: what workers start in sessions of their own can be neither found nor ended",
          "mount -t proc proc /proc"}});
}

Finding name_finding(const std::string& host, const NameFacts& name, const std::vector<LocalAddress>& own) {
    const std::string address = outward_address(own);
    const std::string by_number = fmt::format("give --master-addr {} where this is node 0",
                                              address.empty() ? "an address of this node" : address);
    const std::string text = fmt::format("{} stands for {}", host, names_text(name.addresses));
    const bool leads_back = std::all_of(name.addresses.begin(), name.addresses.end(), is_loopback_address);
    const bool leads_here =
        std::any_of(name.addresses.begin(), name.addresses.end(),
                    [&own](const std::string& one) { return !is_loopback_address(one) && is_own(one, own); });
    return judged(
        "host_name", "",
        {{name.end == AnswerEnd::hangs, kWarns, "who " + host + " is was not answered in time",
          by_number + ", or correct the name servers in /etc/resolv.conf"},
         {name.addresses.empty(), kWarns, fmt::format("{} stands for no address: {}", host, name.why),
          by_number + ", or add a line to /etc/hosts of all nodes"},
         {leads_back, kWarns, text + ", which leads every other node to itself",
          fmt::format("{}, or write that address in place of {} in /etc/hosts", by_number,
                      name.addresses.empty() ? "" : name.addresses.front())},
         {!leads_here, kWarns, text + ", which is no address of this node",
          by_number + "; where addresses are translated on the way, --listen any"},
         {true, kFine, text}});
}

Finding addresses_finding(const std::vector<LocalAddress>& own, const std::vector<std::string>& idle) {
    std::vector<std::string> outward;
    for (const LocalAddress& one : own) {
        if (!one.is_loopback) outward.push_back(fmt::format("{} ({})", one.address, one.interface));
    }
    const std::string rest = idle.empty() ? "" : "; down or without an address: " + names_text(idle);
    return judged(
        "addresses", "",
        {{outward.size() == own.size(), kFails, "the loopback interface has no address" + rest,
          "ip link set lo up"},
         {outward.empty(), kWarns, "only those of loopback: no other node can reach this one" + rest,
          "for several nodes: ip link set DEVICE up, and an address for it"},
         {true, kFine, names_text(outward) + rest}});
}

Finding port_finding(const PortFacts& port) {
    const std::string taken = port.error_number == EADDRINUSE ? "taken" : std::strerror(port.error_number);
    return judged(
        "port", std::to_string(port.port),
        {{port.error_number == 0, kFine, "free"},
         {true, port.is_needed ? kFails : kWarns, taken + (port.holder.empty() ? "" : " by " + port.holder),
          "give another one by --master-port, or by --rdzv-endpoint HOST:PORT"}});
}

Finding proxy_finding(const std::vector<std::string>& proxies) {
    return judged("proxy", "",
                  {{proxies.empty(), kFine, "no variable names one"},
                   {true, kFine,
                    fmt::format("{} set; ddprun goes through no proxy, workers may",
                                names_text(proxies) + (proxies.size() == 1 ? " is" : " are"))}});
}

Finding folder_finding(const FolderFacts& folder) {
    const std::string other = !folder.is_written      ? "start ddprun in another folder"
                              : folder.role == "logs" ? "another folder for --log-dir"
                                                      : "another folder by TMPDIR";
    const bool is_above = !folder.tried.empty() && folder.tried != folder.path;
    const bool is_full = folder.error_number == ENOSPC || folder.error_number == EDQUOT;
    const std::string what =
        folder.role + ": " + (is_above ? fmt::format("is to be made in {}: ", folder.tried) : "");
    const std::string space =
        fmt::format("{}{} of {} are free", what, size_text(folder.free), size_text(folder.size));
    const std::string remove = "remove what is no longer needed, or " + other;
    return judged(
        "folder", folder.path,
        {{folder.end == AnswerEnd::hangs, kFails, what + "hangs; the file system does not answer",
          "see which server it is on (/proc/mounts); " + other},
         {folder.end == AnswerEnd::failed, kWarns, what + "the process that was to look at it has died",
          "see whether the node is short of memory or processes"},
         {!folder.failed_step.empty(), kFails,
          fmt::format("{}{}: {}", what, folder.failed_step, std::strerror(folder.error_number)),
          is_full ? remove : "correct its owner or its mode (ls -ld), or " + other},
         {!folder.is_written, kFine, what + "can be reached"},
         {folder.counts_files && folder.free_files < kLeastFolderFiles, kWarns,
          fmt::format("{}, but for {} more files only", space, folder.free_files), remove},
         {folder.free < kLeastFolderSpace, kFails, space, remove},
         {folder.free < kLittleFolderSpace, kWarns, space, remove},
         {true, kFine, space}});
}

Finding python_finding(const PythonFacts& python) {
    const bool hangs = python.end == AnswerEnd::hangs;
    const std::string servers =
        "see on which servers the folders of PATH are (/proc/mounts), or name another Python by PYTHON_EXEC";
    return judged(
        "python", "",
        {{hangs && python.file.empty(), kFails, python.wanted + " is looked for, which hangs", servers},
         {hangs, kFails, python.file + " hangs", servers},
         {python.file.empty(), kWarns, python.wanted + " is not on PATH",
          "activate the environment that has it, or name it by PYTHON_EXEC; programs that are not for Python need none"},
         {python.version.empty(), kFails, python.file + " does not run a line of Python",
          fmt::format("try {} -c pass; name another one by PYTHON_EXEC", python.file)},
         {true, kFine, fmt::format("{}, {}", python.file, python.version)}});
}

Finding torch_finding(const PythonFacts& python) {
    return judged("pytorch", "",
                  {{!python.torch.empty(), kFine, python.torch},
                   {python.version.empty(), kFine, "not looked for, without Python"},
                   {true, kFine, "none that this Python finds"}});
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

}  // namespace launch
}  // namespace ddprun
