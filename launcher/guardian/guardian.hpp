// GuardianRunner: the ProcessRunner of the agent. It forks nothing itself but the guardian, a tiny process
// between agent and workers that survives the agent for as long as it takes to kill all of them
// (guardian_main.hpp).
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
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/process/job_cgroup.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun {

class GuardianRunner final : public ProcessRunner {
  public:
    // A sentence without final stop that says what happened to the guardian.
    using OnLost = std::function<void(const std::string&)>;

    // How long the guardian may take to answer; what it has to do takes milliseconds, but a program's file
    // may lie on a slow disk. One that does not answer is killed.
    static constexpr std::chrono::seconds kAnswerPatience{60};

    // `on_lost` comes from the executor, at most once, before the ends of the workers. With `parent`, a
    // cgroup v2 for the workers is made below that folder, if possible. Throws system_error if the system
    // refuses.
    GuardianRunner(const boost::asio::any_io_executor& executor, OnLost on_lost,
                   const std::optional<std::filesystem::path>& cgroup_parent = own_cgroup_folder());

    // Ends the guardian, which kills what is left; blocks until that is done, 2 * kGuardianPatience at most,
    // and not at all after a sweep that left something which cannot be killed.
    ~GuardianRunner() override;

    StartResult start(const WorkerSpec& spec, WorkerEvents events) override;
    // Orders some starts ahead, so that the guardian and the agent work side by side.
    std::vector<StartResult> start_all(std::span<const WorkerSpec> specs,
                                       const std::function<WorkerEvents(std::size_t)>& events_of) override;
    void signal_worker(pid_t worker, int signal, SignalScope scope) override;
    void sweep(std::chrono::milliseconds patience, std::function<void(const SweepResult&)> done) override;
    void forget(pid_t worker) override;
    void hang_up() override;
    std::filesystem::path worker_cgroup(int local_rank) const override;

  private:
    class State;

    std::shared_ptr<State> state_;
};

}  // namespace ddprun
