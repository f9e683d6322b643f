#include "launcher/process/ending_process.hpp"

#include <charconv>
#include <csignal>
#include <cstdint>

#include "launcher/harmless_text.hpp"
#include "launcher/process/process_table.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::string_view kPending[] = {"SigPnd:\t", "ShdPnd:\t"};

// include/linux/sched.h
constexpr std::uint32_t kExiting = 0x4;
constexpr std::uint32_t kDumpingCore = 0x200;
constexpr std::uint32_t kKilledBySignal = 0x400;

bool holds_kill(std::string_view line, std::string_view name) {
    if (!line.starts_with(name)) return false;
    std::uint64_t signals = 0;
    std::from_chars(line.data() + name.size(), line.data() + line.size(), signals, 16);
    return (signals >> (SIGKILL - 1) & 1) != 0;
}

// Every thread of a process that was killed has it pending until it runs again. The process as a whole has it
// until the end, unless one of its threads was sent it (tgkill).
bool has_pending_kill(std::string_view status) {
    for (const std::string_view line : lines_of(status)) {
        for (const std::string_view name : kPending) {
            if (holds_kill(line, name)) return true;
        }
    }
    return false;
}

}  // namespace

bool is_ending(pid_t process, const std::filesystem::path& proc) {
    // In this order: a signal that is not pending any more has left its trace in the flags, if not in the
    // same instant.
    const auto status = read_small_file(proc / std::to_string(process) / "status", kMaxStatusFile);
    if (status.has_value() && has_pending_kill(*status)) return true;
    const auto stat = read_process_stat(process, proc);
    return !stat || stat->ended() || (stat->flags & (kExiting | kDumpingCore | kKilledBySignal)) != 0;
}

}  // namespace ddprun::inline launch
