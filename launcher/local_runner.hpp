// LocalRunner: the ProcessRunner that forks in this process.
//
// Its events come from `executor`. The thread that calls start() must live as long as the process (see
// SessionLauncher). SIGCHLD must not be ignored, or the kernel would throw away how workers ended: the
// constructor sets it to its default if the launcher inherited it ignored. Nobody else may reap children it
// started.
//
// The end of a worker is an event (its pidfd). A worker's process group is signalled after the worker was
// reaped: as long as the group has a member its number cannot be given to anybody else, and without one there
// is nobody to hit but a process that got the number in between and leads a group, which takes a whole turn
// of the pid counter. That the last leftover of a group has ended is no event for a process that is not its
// parent; only for such leftovers is there a look at growing intervals.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>

#include "launcher/process_runner.hpp"

namespace ddprun {

class LocalRunner final : public ProcessRunner {
  public:
    explicit LocalRunner(const boost::asio::any_io_executor& executor);

    // Kills and reaps what is left, within kDestructionPatience.
    ~LocalRunner() override;

    std::variant<Started, StartFailure> start(const WorkerSpec& spec, WorkerEvents events) override;
    void signal_group(pid_t worker, int signal) override;
    void forget(pid_t worker) override;

  private:
    struct Child;

    void wait_for_exit(const std::shared_ptr<Child>& child);
    void look_at_group(const std::shared_ptr<Child>& child);

    boost::asio::any_io_executor executor_;
    std::map<pid_t, std::shared_ptr<Child>> children_;
};

}  // namespace ddprun
