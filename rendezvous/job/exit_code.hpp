// The exit codes that ddprun and ddpctl have of their own; besides these a job ends with the code of the
// worker that failed first. Adding one: a constant, a row, and its line in apps/ddprun/README.md, which a
// test compares with the rows.
#pragma once

#include <string_view>

namespace ddprun {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 69;  // rendezvous impossible or timed out, or a node lost
inline constexpr int kExitInternal = 70;
inline constexpr int kExitSystem = 71;       // the system refused: fork, port taken
inline constexpr int kExitPreempted = 75;    // all workers ended 0 after a signal to end or to requeue
inline constexpr int kExitNotAdmitted = 77;  // refused by the coordinator
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;

struct ExitCode {
    int number;
    std::string_view text;     // of the number
    std::string_view name;     // for programs
    std::string_view meaning;  // as README begins it
    std::string_view elsewhere;
};

// torchrun ends with 1 wherever a worker failed or its own machinery did.
inline constexpr ExitCode kExitCodes[] = {
    {0, "0", "success", "every worker on every node ended with 0", "the same in bash and torchrun"},
    {kExitUsage, "2", "usage", "wrong command line", "the same in bash and torchrun"},
    {kExitUnavailable, "69", "unavailable", "the nodes did not come together in time, or a node was lost",
     "EX_UNAVAILABLE of sysexits.h; torchrun: 1"},
    {kExitInternal, "70", "internal", "an internal error of ddprun", "EX_SOFTWARE; torchrun: 1"},
    {kExitSystem, "71", "system", "the system refused", "EX_OSERR; torchrun: 1"},
    {kExitPreempted, "75", "preempted", "after a signal that ends the job",
     "EX_TEMPFAIL, by which schedulers requeue; torchrun: 1"},
    {kExitNotAdmitted, "77", "not_admitted", "not admitted", "EX_NOPERM; torchrun: 1"},
    {kExitNotExecutable, "126", "not_executable", "not executable", "the same in bash; torchrun: 1"},
    {kExitNotFound, "127", "not_found", "program not found", "the same in bash; torchrun: 1"},
    {kExitSignalBase, "128+n", "signalled", "ended by signal n", "the same in bash; torchrun: 1"},
};

}  // namespace ddprun
