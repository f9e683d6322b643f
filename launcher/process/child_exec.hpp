// The two halves of execvp: before the fork, where memory may be allocated, it is worked out where a program
// may be (ExecSearch); after it, the child prepares itself and becomes that program (become_program).
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

// Returns the paths to try in order: the name itself if it has a slash, else it under every directory of
// `path` (an empty directory is the current one; without a PATH the system's default is taken). An empty name
// has no candidates. Pure.
std::vector<std::string> exec_candidates(const std::string& name, const std::optional<std::string>& path);

// Returns the whole path of the file that execvp would take; empty: there is none.
std::string find_executable(const std::string& name, const std::optional<std::string>& path);

// ExecSearch remembers where one name was found, since many workers run one program, and each would try all
// of PATH again. Its candidates begin with those that were there when this name was first looked for on this
// PATH. What has come or gone since is found all the same, as the others follow; only a program that comes to
// stand in front of one that was found goes unseen, as with a shell's hash table.
class ExecSearch {
  public:
    const std::vector<std::string>& candidates(const std::string& name,
                                               const std::optional<std::string>& path);

  private:
    std::string name_;
    std::optional<std::string> path_;
    std::vector<std::string> candidates_;
};

// Between vfork and exec a worker's process borrows the memory of a launcher that may have other threads. So
// it only makes async-signal-safe calls, allocates no memory and throws nothing; the parent has prepared
// everything it needs. It does:
// 1. a session and a process group of its own;
// 2. the parent-death signal, and a look whether the parent died before it was set;
// 3. CPUs and memory policy, so that every page of the program is where it shall be;
// 4. signal dispositions and mask as a fresh program expects them;
// 5. standard streams and, if wanted, the terminal; every other descriptor becomes close-on-exec;
// 6. exec. What fails is written to the report pipe, which exec closes, and the process ends by _exit.

enum class ChildStep : int { session, parent_death_signal, affinity, standard_streams, descriptors, exec };

// ChildReport arrives on the report pipe when the program could not be started; nothing arrives when it was.
struct ChildReport {
    ChildStep step = ChildStep::exec;
    int error_number = 0;
};

constexpr std::uint64_t signal_bit(int signal) { return std::uint64_t{1} << (signal - 1); }
inline constexpr std::uint64_t kAllSignals = ~std::uint64_t{0};

// The parent owns the blueprint, of which the child reads the plain members, and the arrays, which end with a
// null pointer.
struct ChildPlan {
    const WorkerSpec& spec;
    const char* const* candidates = nullptr;  // paths to try in order, as execvp does
    char* const* argv = nullptr;
    char** shell_argv = nullptr;  // "/bin/sh", a free slot for the script, then argv from index 1
    char* const* environment = nullptr;
    pid_t parent = 0;
    int report_fd = -1;                            // close-on-exec, above the standard streams
    std::uint64_t signals_to_reset = kAllSignals;  // those that are not at their default
    const unsigned long* cpus = nullptr;           // a bit for each; nullptr: all of the parent's
    std::size_t cpu_bytes = 0;
    // It has a bit for each NUMA node, one of them set; nullptr: no policy. The program does without if the
    // kernel refuses.
    const unsigned long* memory_nodes = nullptr;
    std::size_t memory_bytes = 0;
};

// Becomes the program, or reports why not and ends. Called in the child, with all signals blocked.
[[noreturn]] void become_program(const ChildPlan& plan) noexcept;

}  // namespace launch
}  // namespace ddprun
