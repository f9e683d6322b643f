// ProcessStat and the functions below it show the processes of this machine from /proc: their parents, what
// they do, whether they are about to end, and what an ended process has used.
//
// All answers are snapshots, which may be outdated when they are read. Nothing here throws.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace launch {

// kMaxStatusFile: more bytes than any /proc/<pid>/status has, which lists the user's groups.
inline constexpr std::size_t kMaxStatusFile = 1024 * 1024;

// ProcessStat is one line of /proc/<pid>/stat, as far as it matters here.
struct ProcessStat {
    pid_t pid = 0;
    std::string command;  // at most 15 bytes, any bytes
    char state = '?';     // R running, S sleeping, D in an uninterruptible wait, T stopped, Z ended, …
    pid_t parent = 0;
    pid_t process_group = 0;
    std::uint32_t flags = 0;       // of its main thread: PF_…, include/linux/sched.h
    std::uint64_t start_time = 0;  // ticks since boot; with the pid it names one process for good

    // Returns true for a process that only waits for its parent to reap it.
    bool ended() const { return state == 'Z' || state == 'X'; }
};

// Reads a line of /proc/<pid>/stat; nothing for a line of another form. The command may hold parentheses and
// spaces. Pure.
std::optional<ProcessStat> parse_process_stat(std::string_view line);

// Reads the process's line; nothing if there is no such process.
std::optional<ProcessStat> read_process_stat(pid_t pid, const std::string& proc = "/proc");

// Returns true if /proc shows this process, and so those that it has started.
bool sees_own_processes(const std::string& proc = "/proc");

// Returns the numbers of all processes that can be seen; nothing at all if `proc` cannot be listed.
std::optional<std::vector<pid_t>> list_processes(const std::string& proc = "/proc");

// Reads all processes that can be seen; nothing at all if `proc` cannot be listed.
std::optional<std::vector<ProcessStat>> read_process_table(const std::string& proc = "/proc");

// Reads this process and every one below it; nothing if `proc` does not show this process. Where the kernel
// lists the children of a process (CONFIG_PROC_CHILDREN, usual), no other user's process is opened, however
// many there are. Elsewhere all processes are read. A child that changes its parent meanwhile is found all
// the same, unless parents keep changing.
std::optional<std::vector<ProcessStat>> read_own_processes(const std::string& proc = "/proc");

// Returns every process below `root`, parents before their children, without `spared` and what is below
// those. Pure.
std::vector<ProcessStat> descendants(const std::vector<ProcessStat>& table, pid_t root,
                                     const std::vector<ProcessStat>& spared = {});

// Survivor is a process that is still there although it was sent SIGKILL, or was not to be sent it. The
// description is for the administrator of the machine.
struct Survivor {
    pid_t pid = 0;
    char state = '?';
    std::string wchan;    // the kernel function in which it waits; empty: none, or hidden
    std::string command;  // as in ProcessStat, fit to be printed
    // foreign_uid: the user of the process, if that is another one, so that we may not signal it (a setuid
    // program); -1: we may.
    std::int64_t foreign_uid = -1;
};
BOOST_DESCRIBE_STRUCT(Survivor, (), (pid, state, wchan, command, foreign_uid))

Survivor describe_survivor(const ProcessStat& process, const std::string& proc = "/proc");

// Returns "pid 77 (python3, state D in nfs_wait_bit_killable)".
std::string to_string(const Survivor& survivor);

// Returns the signals of a line of /proc/<pid>/status, "SigBlk": bit 0 is signal 1; nothing where there is no
// such line. Pure.
std::optional<std::uint64_t> signals_in_status(std::string_view status, std::string_view name);

// Returns true once it is certain that the process ends, and by what: it was killed, or has called exit.
// Signals sent from now on change nothing. The parent may not be told yet, as the kernel may need a second to
// free the memory of a large process. True also for a process that is gone.
bool is_ending(pid_t process, const std::string& proc = "/proc");

// ResourceUse says what an ended process has used of its machine, with what it had started and waited for.
struct ResourceUse {
    std::int64_t user_us = 0;  // CPU time in its own code
    std::int64_t system_us = 0;
    std::int64_t max_rss_bytes = 0;  // of the largest single process among them
    std::int64_t page_faults = 0;    // the faults that needed the disk
};
BOOST_DESCRIBE_STRUCT(ResourceUse, (), (user_us, system_us, max_rss_bytes, page_faults))

// Returns what a child that has ended, but was not reaped, has used; does not reap it. Nothing where the
// system does not say.
std::optional<ResourceUse> use_of_ended(pid_t child);

}  // namespace launch
}  // namespace ddprun
