// make_guardian forks two processes, the keeper and the guardian, which never return:
//
//     agent ── keeper ── guardian ── workers
//
// The guardian runs the workers (LocalRunner) as the agent orders. When the agent ends, the guardian kills
// everything below itself and ends. When the agent only stands still, the guardian stops the workers at the
// end of their lease, and kills them if the lease does not go on in time. The keeper only waits for the
// guardian to end, then does the same. Agent, keeper and guardian are child sub-reapers. If one or even two
// of them are killed in the same instant, a process above or below is left to clean up. If all three are
// killed, the workers still end by their parent-death signal; what a worker started in a session of its own
// then stays.
//
// Keeper and guardian have names, command lines and a session of their own. A signal that pkill -f or killall
// sends to the launcher or the user's program therefore does not hit them. Each process leads a group of its
// own and blocks all signals that can be blocked: the agent decides what a signal means. The only descriptors
// that they have from the agent are their end of the channel and its stderr.
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

// make_guardian makes the ProcessRunner of the agent. The runner itself forks nothing but the guardian, a
// tiny process that survives the agent until it has killed all workers (see above).
//
// Called early, while this process has one thread. The runner is kept as long as there are workers; one at a
// time. The runner makes this process a child sub-reaper, blocks SIGCHLD and reaps every child there is, so
// no other code here may wait for children. As process 1 of a container it thereby reaps that container's
// orphans. Children that this process had before are reaped but never killed.
//
// When the guardian is lost, which takes a SIGKILL, everything below this process is killed and reaped. Then
// on_lost says so, and every worker is reported as ended by SIGKILL. Later starts fail.
//
// `on_lost` is given a sentence without final stop, from the executor, at most once, before the ends of the
// workers. With `cgroup_parent`, a cgroup v2 for the workers is made below that folder, if possible. The
// folders of `workers` workers are made ahead, while the guardian waits for the first start. `in_helpers`
// runs in the keeper before it forks the guardian, and removes what the two need not know from their copy of
// this process's memory. Throws system_error if the system refuses.
//
// The runner's destructor ends the guardian, which kills what is left. The destructor blocks until that is
// done, 2 * kGuardianTimeout at most, and not at all after a sweep that left something that cannot be killed.
std::unique_ptr<ProcessRunner> make_guardian(
    const boost::asio::any_io_executor& executor, int workers,
    std::function<void(const std::string&)> on_lost,
    const std::optional<std::filesystem::path>& cgroup_parent = own_cgroup_folder(),
    const std::function<void()>& in_helpers = {});

// kGuardianTimeout: how long a killed process may take to vanish (it may hang in the kernel) before the
// guardian ends without it.
inline constexpr std::chrono::seconds kGuardianTimeout{15};

// kKeeperName and kGuardianName: the names of the two in ps and /proc/<pid>/comm. ps -f and
// /proc/<pid>/cmdline show "rank-keeper of process 1234".
inline constexpr char kKeeperName[] = "rank-keeper";
inline constexpr char kGuardianName[] = "rank-guardian";

// Becomes the keeper and starts the guardian. Called in a fresh child that the agent forked while it had one
// thread.
[[noreturn]] void become_keeper(GuardianChannel channel, const WorkerLease& lease,
                                const std::optional<JobCgroup>& cgroup);

// Returns true if the number is open and a program is meant to inherit it. Where a launcher was started
// without a standard stream, the number belongs to a descriptor of its own.
bool is_inherited(int fd);

}  // namespace launch
}  // namespace ddprun
