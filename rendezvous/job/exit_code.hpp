// The exit codes that ddprun and ddpctl have of their own; besides these a job ends with the code of the
// worker that failed first. Adding one: a constant, its line in apps/ddprun/manual/failures.md, and its row in
// exit_code_test.cpp, which compares the two.
#pragma once

namespace ddprun::inline job {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 69;  // rendezvous impossible or timed out, or a node lost
inline constexpr int kExitInternal = 70;
inline constexpr int kExitSystem = 71;       // the system refused: fork, port taken
inline constexpr int kExitPreempted = 75;    // all workers ended 0 after a signal to end or to requeue
inline constexpr int kExitNotAdmitted = 77;  // refused by the coordinator
inline constexpr int kExitOverdue = 124;     // ranks were ended when --exit-wait S:kill had passed
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;

// The code of something that failed: one that a parent would read as another, or as 0, is an error of our own.
constexpr int failed_code(int code) { return code >= 1 && code <= 255 ? code : kExitInternal; }

}  // namespace ddprun::inline job
