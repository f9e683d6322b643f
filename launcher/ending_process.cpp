#include "launcher/ending_process.hpp"

#include <charconv>
#include <csignal>
#include <cstdint>

#include "launcher/harmless_text.hpp"
#include "launcher/process_table.hpp"
#include "launcher/small_file.hpp"

namespace ddprun {
namespace {

constexpr std::size_t kMaxStatus = 1024 * 1024;  // it lists the user's groups
constexpr std::string_view kPending = "SigPnd:\t";

// include/linux/sched.h
constexpr std::uint32_t kExiting = 0x4;
constexpr std::uint32_t kDumpingCore = 0x200;
constexpr std::uint32_t kKilledBySignal = 0x400;

// Every thread of a process that was killed has it pending until it runs again.
bool has_pending_kill(std::string_view status) {
    for (const std::string_view line : lines_of(status)) {
        if (!line.starts_with(kPending)) continue;
        std::uint64_t signals = 0;
        std::from_chars(line.data() + kPending.size(), line.data() + line.size(), signals, 16);
        return (signals >> (SIGKILL - 1) & 1) != 0;
    }
    return false;
}

}  // namespace

bool is_ending(pid_t process, const std::filesystem::path& proc) {
    // In this order: a signal that is not pending any more has left its trace in the flags.
    const auto status = read_small_file(proc / std::to_string(process) / "status", kMaxStatus);
    if (status.has_value() && has_pending_kill(*status)) return true;
    const auto stat = read_process_stat(process, proc);
    return !stat || stat->ended() || (stat->flags & (kExiting | kDumpingCore | kKilledBySignal)) != 0;
}

}  // namespace ddprun
