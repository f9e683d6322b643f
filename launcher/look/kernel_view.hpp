// ProcessView is what the kernel tells of a process and its threads without stopping any: where each waits,
// and for what.
//
// Read before anything stops a thread: after a stop a sleeping thread shows another system call until it
// wakes. All answers are snapshots. Nothing here throws on what a process does.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// KernelFiles: where the kernel is asked; others in tests.
struct KernelFiles {
    std::string proc = "/proc";
    std::string yama = "/proc/sys/kernel/yama/ptrace_scope";
};

// kMaxThreads: what is behind them is left out.
inline constexpr std::size_t kMaxThreads = 1000;

struct ThreadView {
    pid_t id = 0;
    char state = '?';  // R running, S sleeping, D in an uninterruptible wait, T stopped, t traced, Z ended
    std::string name;  // at most 15 bytes, any bytes
    std::string wait_channel;  // the kernel function in which it waits; empty: none, or hidden
    // system_call: its number on this machine, -1 in a wait outside of system calls (a page fault); nothing:
    // running, or not to be read (ProcessView::why_unreadable). What is below it is 0 then, and the arguments
    // are also at -1.
    std::optional<long> system_call;
    std::array<std::uint64_t, 6> arguments{};
    std::uintptr_t stack_pointer = 0;
    std::uintptr_t program_counter = 0;
    std::uint64_t cpu_ticks = 0;
};

struct ProcessView {
    pid_t pid = 0;
    char state = '?';  // of its main thread
    std::string name;
    pid_t tracer = 0;               // 0: none
    bool is_there = false;          // else there is nothing more than the pid and the reason
    bool threads_left_out = false;  // there are more than kMaxThreads
    // why_unreadable: why the system calls, or all, are missing: a reason as to_reason() has it; empty if
    // they are not.
    std::string why_unreadable;
    std::vector<ThreadView> threads;  // by number

    bool ended() const { return !is_there || state == 'Z' || state == 'X'; }
    // Returns the main thread; nullptr if it was not seen.
    const ThreadView* main_thread() const;
};

// Reads a line of /proc/PID/task/TID/stat: number, name, state and CPU ticks. Returns false for a line of
// another form. Pure.
bool parse_thread_stat(std::string_view line, ThreadView& thread);

// Reads a line of /proc/PID/task/TID/syscall: the system call, its arguments, the stack pointer and the
// program counter. Returns false for a line of another form. Pure.
bool parse_system_call(std::string_view line, ThreadView& thread);

// Returns the tracer that /proc/PID/status names; 0: none. Pure.
pid_t tracer_in_status(std::string_view status);

// Reads the process with all of its threads.
ProcessView read_process_view(pid_t pid, const KernelFiles& files = {});

// Returns why a process could not be read, from the error of the call that failed: "process 12 has ended", or
// "the kernel does not let this process read process 12: Operation not permitted; kernel.yama.ptrace_scope is
// 2, which asks for the capability SYS_PTRACE".
std::string to_reason(pid_t pid, int error, const KernelFiles& files = {});

}  // namespace launch
}  // namespace ddprun
