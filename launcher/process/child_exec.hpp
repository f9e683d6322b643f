// ExecSearch and become_program are the two halves of execvp. ExecSearch works out before the fork, where
// memory may be allocated, where a program may be. become_program prepares the child after the fork and
// becomes that program.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/process/process_runner.hpp"

namespace ddprun {
inline namespace launch {

// Returns the paths to try in order: the name itself if it has a slash, else the name under every directory
// of `path`. An empty directory is the current one; without a PATH the system's default is taken. An empty
// name has no candidates. Pure.
std::vector<std::string> exec_candidates(const std::string& name, const std::optional<std::string>& path);

// Returns the whole path of the file that execvp would take; empty: there is none.
std::string find_executable(const std::string& name, const std::optional<std::string>& path);

// ExecSearch remembers where one name was found, since many workers run one program, and each would search
// all of PATH again. The candidates begin with those that existed when this name was first looked for on this
// PATH; the others follow. A program that comes or goes later is found all the same. Only one that appears in
// front of a found one goes unseen, as with a shell's hash table.
class ExecSearch {
  public:
    const std::vector<std::string>& candidates(const std::string& name,
                                               const std::optional<std::string>& path);

  private:
    std::string name_;
    std::optional<std::string> path_;
    std::vector<std::string> candidates_;
};

// become_program runs between vfork and exec, in memory borrowed from a launcher that may have other threads.
// The child only makes async-signal-safe calls, allocates no memory and throws nothing; the parent has
// prepared everything that the child needs. The steps are:
//   1. a session and a process group of its own;
//   2. the parent-death signal, and a check whether the parent died before it was set;
//   3. CPUs and memory policy, so that every page of the program is placed by them;
//   4. signal dispositions and mask as a fresh program expects them;
//   5. standard streams and, if wanted, the terminal; every other descriptor becomes close-on-exec;
//   6. exec. A failure is written to the report pipe, which exec closes, and the process ends by _exit.

enum class ChildStep : int { session, parent_death_signal, affinity, standard_streams, descriptors, exec };

// ChildReport arrives on the report pipe when the program could not be started. A start that worked sends
// nothing.
struct ChildReport {
    ChildStep step = ChildStep::exec;
    int error_number = 0;
};

constexpr std::uint64_t signal_bit(int signal) { return std::uint64_t{1} << (signal - 1); }
inline constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

// ChildPlan is what the child needs. The parent owns the spec, of which the child reads the plain members,
// and the arrays, which end with a null pointer.
struct ChildPlan {
    const WorkerSpec& spec;
    const char* const* candidates = nullptr;  // paths to try in order, as execvp does
    char* const* argv = nullptr;
    char** shell_argv = nullptr;  // "/bin/sh", a free slot for the script, then argv from index 1
    char* const* environment = nullptr;
    pid_t parent = 0;
    int report_fd = -1;                            // close-on-exec, above the standard streams
    std::uint64_t signals_to_reset = kAllSignals;  // the signals that are not at their default
    const unsigned long* cpus = nullptr;           // a bit for each CPU; nullptr: all of the parent's
    std::size_t cpu_bytes = 0;
    // memory_nodes has a bit for each NUMA node, one of them set; nullptr: no policy. The program does
    // without if the kernel refuses.
    const unsigned long* memory_nodes = nullptr;
    std::size_t memory_bytes = 0;
};

// Becomes the program, or reports why not and ends. Called in the child, with all signals blocked.
[[noreturn]] void become_program(const ChildPlan& plan) noexcept;

}  // namespace launch
}  // namespace ddprun
