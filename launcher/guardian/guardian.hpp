// The guardian is two processes, each forked and neither ever returning:
//
//     agent ── keeper ── guardian ── workers
//
// The guardian runs the workers (LocalRunner) as the agent orders. When the agent vanishes, however it ended,
// it kills everything below it and ends; when the agent only stands still, it stops the workers at the end of
// their lease, and kills them if that does not go on in time. The keeper only waits for the guardian to end,
// then does the same. All three are child sub-reapers: whichever of them is killed, one above it or below it
// is left to clean up, even if two are killed in the same instant. If all three are, the workers still end by
// their parent-death signal; what a worker started in a session of its own then stays.
//
// Both processes have names, command lines and a session of their own, so that what is meant for the launcher
// or for the user's program by one of these (pkill -f, killall) leaves them. They are leaders of their own
// process group and block all signals that can be blocked: the agent decides what a signal means. They hold
// no descriptor of the agent but their end of the channel and its stderr.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/guardian/guardian_channel.hpp"
#include "launcher/process/job_cgroup.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun {
inline namespace launch {

// make_guardian makes the ProcessRunner of the agent. It forks nothing itself but the guardian, a tiny
// process between agent and workers that survives the agent for as long as it takes to kill all of them
// (guardian.hpp).
//
// Made early, while this process has one thread, and kept as long as it has workers; one at a time. It makes
// this process a child sub-reaper, blocks SIGCHLD and reaps every child there is, so nobody else in this
// process may wait for children. As process 1 of a container it thereby reaps that container's orphans.
// Children that this process had before are reaped but never killed.
//
// When the guardian is lost, which takes a SIGKILL, everything below this process is killed and reaped; then
// on_lost says so, and every worker is reported as ended by SIGKILL. Later starts fail.
//
// `on_lost` is given a sentence without final stop, from the executor, at most once, before the ends of the
// workers. With `cgroup_parent`, a cgroup v2 for the workers is made below that folder, if possible; those of
// so many workers ahead, while the guardian still waits for the first start. Throws system_error if the
// system refuses. `in_helpers` takes what they need not know out of their copy of this process's memory.
//
// The runner's destructor ends the guardian, which kills what is left; it blocks until that is done,
// 2 * kGuardianTimeout at most, and not at all after a sweep that left something which cannot be killed.
std::unique_ptr<ProcessRunner> make_guardian(
    const boost::asio::any_io_executor& executor, int workers,
    std::function<void(const std::string&)> on_lost,
    const std::optional<std::filesystem::path>& cgroup_parent = own_cgroup_folder(),
    const std::function<void()>& in_helpers = {});

// A killed process may take so long to vanish (it may hang in the kernel) before the guardian ends without
// it.
inline constexpr std::chrono::seconds kGuardianTimeout{15};

// ps and /proc/<pid>/comm show the two by these names, and ps -f and /proc/<pid>/cmdline as "rank-keeper of
// process 1234".
inline constexpr char kKeeperName[] = "rank-keeper";
inline constexpr char kGuardianName[] = "rank-guardian";

// Becomes the keeper and starts the guardian. Called in a fresh child of the agent, made while that had one
// thread.
[[noreturn]] void become_keeper(GuardianChannel channel, const WorkerLease& lease,
                                const std::optional<JobCgroup>& cgroup);

// True if the number is open and a program is meant to inherit it. A launcher that was started without a
// standard stream has something of its own there.
bool is_inherited(int fd);

}  // namespace launch
}  // namespace ddprun
