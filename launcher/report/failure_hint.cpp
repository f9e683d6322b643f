#include "launcher/report/failure_hint.hpp"

#include <fmt/core.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "launcher/report/kill_cause.hpp"
#include "rendezvous/system/number_text.hpp"

namespace ddprun::inline launch {
namespace {

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
// With a thirty-second part free or less it is full: what a worker wanted may have been larger than that.
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

// A page that was not there could not be had: what is mapped ends before it, or there is no memory for it.
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
