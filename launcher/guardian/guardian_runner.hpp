// make_guardian makes the ProcessRunner of the agent. It forks nothing itself but the guardian, a tiny process
// between agent and workers that survives the agent for as long as it takes to kill all of them
// (guardian.hpp).
//
// Made early, while this process has one thread, and kept as long as it has workers; one at a time. It makes
// this process a child sub-reaper, blocks SIGCHLD and reaps every child there is, so nobody else in this
// process may wait for children. As process 1 of a container it thereby reaps that container's orphans.
// Children that this process had before are reaped but never killed.
//
// When the guardian is lost, which takes a SIGKILL, everything below this process is killed and reaped; then
// on_lost says so, and every worker is reported as ended by SIGKILL. Later starts fail.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/process/job_cgroup.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun::inline launch {

// `on_lost` is given a sentence without final stop, from the executor, at most once, before the ends of the workers. With
// `cgroup_parent`, a cgroup v2 for the workers is made below that folder, if possible; those of
// so many workers ahead, while the guardian still waits for the first start. Throws
// system_error if the system refuses.
//
// The runner's destructor ends the guardian, which kills what is left; it blocks until that is done,
// 2 * kGuardianTimeout at most, and not at all after a sweep that left something which cannot be killed.
std::unique_ptr<ProcessRunner> make_guardian(
    const boost::asio::any_io_executor& executor, int workers,
    std::function<void(const std::string&)> on_lost,
    const std::optional<std::filesystem::path>& cgroup_parent = own_cgroup_folder());

}  // namespace ddprun::inline launch
