#include "launcher/report/failure_cause.hpp"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxCounterFile = 256 * 1024;
constexpr std::string_view kKills = "oom_kill";

std::optional<std::int64_t> parse_single(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    return whole_number<std::int64_t>(text);
}

std::optional<std::int64_t> read_counter(const fs::path& file) {
    const auto text = read_small_file(file, kMaxCounterFile);
    return text.has_value() ? parse_counter(*text, kKills) : std::nullopt;
}

std::optional<std::int64_t> read_number(const fs::path& file) {
    const auto text = read_small_file(file, kMaxCounterFile);
    return text.has_value() ? parse_single(*text) : std::nullopt;
}

std::optional<std::int64_t> read_cgroup_kills(const fs::path& folder) {
    if (folder.empty()) return std::nullopt;
    return read_counter(folder / "memory.events");
}

// Returns how often the counter moved; nothing if it is not known at both times, or went back and so is no counter.
std::optional<std::int64_t> kills_between(std::optional<std::int64_t> before,
                                          std::optional<std::int64_t> after) {
    if (!before || !after || *after < *before) return std::nullopt;
    return *after - *before;
}

std::string memory_text(const OomCounters& after) {
    std::string text;
    if (after.worker_limit) text += "limit " + size_text(*after.worker_limit);
    if (after.worker_peak) text += (text.empty() ? "peak " : ", peak ") + size_text(*after.worker_peak);
    return text.empty() ? text : " (" + text + ")";
}

std::string processes(std::int64_t count) {
    return count == 1 ? "one process" : fmt::format("{} processes", count);
}

std::string perhaps(std::int64_t kills, std::string_view where) {
    return fmt::format(
        "perhaps the kernel's OOM killer: since the worker started it killed {} {}, which one "
        "could not be told",
        processes(kills), where);
}

constexpr std::string_view kNotTheKernel = "not the kernel's OOM killer: somebody else sent SIGKILL; ";

constexpr std::string_view kSharedMemoryFull =
    "shared memory has run out, see 'df -h /dev/shm': docker run --shm-size=8g (or --ipc=host); in "
    "Kubernetes an emptyDir of medium Memory at /dev/shm; under Slurm more --mem, which /dev/shm counts "
    "towards";
// Its text depends on what /dev/shm holds.
constexpr std::string_view kBusError = "bus error";
constexpr std::string_view kLockedMemory =
    "memory cannot be locked for RDMA, see 'ulimit -l': docker run --ulimit memlock=-1; under Slurm "
    "PropagateResourceLimitsExcept=MEMLOCK";
constexpr std::string_view kNoInterface =
    "NCCL found no network interface that it may use: name one by NCCL_SOCKET_IFNAME (see 'ip addr')";
constexpr std::string_view kWrongDevice =
    "by --gpu-bind single a worker sees its own device only: use index $DDPRUN_DEVICE, not LOCAL_RANK, or "
    "run with --gpu-bind all";
constexpr std::string_view kOpenFiles =
    "too many files are open, see 'ulimit -n': raise it, or docker run --ulimit nofile=1048576";
// Shared memory counts as full if a thirty-second part is free or less: the worker may have wanted more than that.
constexpr std::int64_t kNearlyFull = 32;
constexpr std::string_view kAskNccl = "NCCL says more with NCCL_DEBUG=WARN in the environment";

// The first entry whose texts are all in the failure's words counts, so the more special ones come first.
struct Known {
    std::array<std::string_view, 2> texts;
    std::string_view hint;
    bool HintFacts::*holds = nullptr;  // what must be so, besides
};

constexpr Known kKnown[] = {
    {{"No space left on device", "/dev/shm"}, kSharedMemoryFull},
    {{"Error while creating shared memory segment", ""}, kSharedMemoryFull},
    {{"unhandled system error", "shm"}, kSharedMemoryFull},
    {{"unhandled system error", "shared memory"}, kSharedMemoryFull},
    {{"Bus error", ""}, kBusError},
    {{"out of shared memory", ""}, kSharedMemoryFull},
    {{"Cannot allocate memory", "ibv_"}, kLockedMemory},
    {{"no socket interface found", ""}, kNoInterface},
    {{"invalid device ordinal", ""}, kWrongDevice, &HintFacts::sees_one_gpu},
    {{"Too many open files", ""}, kOpenFiles},
    {{"ncclSystemError", ""}, kAskNccl},
    {{"unhandled system error", ""}, kAskNccl},
    {{"unhandled cuda error", ""}, kAskNccl},
};

bool says(const Failure& failure, std::string_view text) {
    const auto in = [text](const std::string& words) { return words.find(text) != std::string::npos; };
    return in(failure.error_message) || in(failure.traceback) ||
           std::any_of(failure.last_lines.begin(), failure.last_lines.end(), in);
}

// A bus error means that a page could not be had: the mapped file ends before it, or there is no memory for it.
std::string bus_error_hint(const std::optional<Room>& shared_memory) {
    std::string room;
    if (shared_memory) {
        room = fmt::format("{} of {} of /dev/shm are free now", size_text(shared_memory->free),
                           size_text(shared_memory->size));
        if (shared_memory->free <= shared_memory->size / kNearlyFull)
            return fmt::format("{}: {}", room, kSharedMemoryFull);
        room = " (" + room + ")";
    }
    return fmt::format(
        "perhaps a file that was mapped became shorter, or shared memory ran out{}; against the "
        "latter docker run --shm-size=8g (or --ipc=host), in Kubernetes an emptyDir of medium "
        "Memory at /dev/shm, under Slurm more --mem",
        room);
}

}  // namespace

OomCounters read_oom_counters(const OomSources& sources) {
    OomCounters counters;
    counters.worker_kills = read_cgroup_kills(sources.worker_cgroup);
    counters.job_kills = read_cgroup_kills(sources.job_cgroup);
    counters.machine_kills = read_counter(sources.vmstat);
    if (!sources.worker_cgroup.empty()) {
        counters.worker_limit = read_number(sources.worker_cgroup / "memory.max");
        counters.worker_peak = read_number(sources.worker_cgroup / "memory.peak");
    }
    return counters;
}

std::string explain_kill(const OomCounters& before, const OomCounters& after) {
    if (auto kills = kills_between(before.worker_kills, after.worker_kills)) {
        if (*kills == 0)
            return fmt::format("{}its cgroup counts no OOM kill{}", kNotTheKernel, memory_text(after));
        return fmt::format("the kernel's OOM killer: it killed {} of this worker's own cgroup{}",
                           processes(*kills), memory_text(after));
    }
    const auto job = kills_between(before.job_kills, after.job_kills);
    const auto machine = kills_between(before.machine_kills, after.machine_kills);
    if (job == 0)
        return fmt::format("{}the job's cgroup counts no OOM kill since the worker started", kNotTheKernel);
    if (job) return perhaps(*job, "in the job's cgroup");
    if (machine == 0)
        return fmt::format("{}the kernel counts no OOM kill on this node since the worker started",
                           kNotTheKernel);
    if (machine) return perhaps(*machine, "on this node");
    return "whether the kernel's OOM killer sent SIGKILL could not be told: its counters cannot be read here";
}

std::optional<std::int64_t> parse_counter(std::string_view text, std::string_view name) {
    for (const std::string_view line : lines_of(text)) {
        const auto blank = line.find(' ');
        if (blank != std::string_view::npos && line.substr(0, blank) == name)
            return parse_single(line.substr(blank + 1));
    }
    return std::nullopt;
}

std::string size_text(std::int64_t bytes) {
    constexpr std::array<std::string_view, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
    if (bytes < 1024) return fmt::format("{} bytes", bytes);
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
    return fmt::format("{:.1f} {}", value, kUnits.at(unit));
}

std::optional<Room> shared_memory_room() {
    struct statvfs info {};
    if (::statvfs("/dev/shm", &info) != 0 || info.f_blocks == 0) return std::nullopt;
    const auto block = static_cast<std::int64_t>(info.f_frsize);
    return Room{static_cast<std::int64_t>(info.f_blocks) * block,
                static_cast<std::int64_t>(info.f_bavail) * block};
}

std::string failure_hint(const Failure& failure, const HintFacts& facts) {
    if (failure.kind != Failure::Kind::worker_failed) return {};
    for (const Known& known : kKnown) {
        const bool all = std::all_of(known.texts.begin(), known.texts.end(),
                                     [&](std::string_view text) { return says(failure, text); });
        if (all && (known.holds == nullptr || facts.*known.holds))
            return known.hint == kBusError ? bus_error_hint(facts.shared_memory) : std::string(known.hint);
    }
    if (!facts.interpreter.empty() && says(failure, "ModuleNotFoundError"))
        return "the interpreter is " + facts.interpreter;
    return failure.signal == SIGBUS ? bus_error_hint(facts.shared_memory) : std::string();
}

}  // namespace ddprun::inline launch
