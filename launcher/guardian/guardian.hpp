// The guardian is two processes, each forked and neither ever returning:
//
//     agent ── keeper ── guardian ── workers
//
// The guardian runs the workers (LocalRunner) as the agent orders. When the agent vanishes, however it ended,
// it kills everything below it and ends; when the agent only stands still, it stops the workers at the end of their
// lease, and kills them if that does not go on in time. The keeper only waits for the guardian to end, then does the same.
// All three are child sub-reapers: whichever of them is killed, one above it or below it is left to clean up,
// even if two are killed in the same instant. If all three are, the workers still end by their parent-death
// signal; what a worker started in a session of its own then stays.
//
// Both processes are leaders of their own process group and block all signals that can be blocked: the agent
// decides what a signal means. They hold no descriptor of the agent but their end of the channel and its
// stderr.
#pragma once

#include <chrono>
#include <optional>

#include "launcher/guardian/guardian_channel.hpp"
#include "launcher/process/job_cgroup.hpp"

namespace ddprun::inline launch {

// A killed process may take so long to vanish (it may hang in the kernel) before the guardian ends without it.
inline constexpr std::chrono::seconds kGuardianTimeout{15};

// ps and /proc/<pid>/comm show the two by these names.
inline constexpr char kKeeperName[] = "ddprun-keeper";
inline constexpr char kGuardianName[] = "ddprun-guardian";

// Becomes the keeper and starts the guardian. Called in a fresh child of the agent, made while that had one
// thread.
[[noreturn]] void become_keeper(GuardianChannel channel, const WorkerLease& lease,
                                const std::optional<JobCgroup>& cgroup);

// True if the number is open and a program is meant to inherit it. A launcher that was started without a
// standard stream has something of its own there.
bool is_inherited(int fd);

}  // namespace ddprun::inline launch
