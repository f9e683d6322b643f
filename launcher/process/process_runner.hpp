// ProcessRunner starts worker processes and says how they end. The interface separates WorkerGroup from what
// forks: LocalRunner (this process), a guardian, or a fake in tests.
//
// Driven by one thread, the one that runs the executor on which the events arrive. The creator owns the
// runner, which outlives the WorkerGroups that use it. A runner never decides: no restarts, no grace, no
// escalation.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "launcher/process/process_table.hpp"
#include "launcher/process/signal_scope.hpp"
#include "rendezvous/codec/description.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// Stdio says where a standard stream of a worker leads, if not to a given descriptor.
enum class Stdio {
    inherit,  // the launcher's own
    null,     // /dev/null
};
BOOST_DESCRIBE_ENUM(Stdio, inherit, null)

// GivenDescriptor is an open descriptor of this process that becomes a worker's stream. The caller owns it,
// keeps it open until the worker was started, and closes it then. Never 0 to 2, which are the worker's own.
struct GivenDescriptor {
    int fd = -1;
    bool operator==(const GivenDescriptor&) const = default;
};
BOOST_DESCRIBE_STRUCT(GivenDescriptor, (), (fd))

using StreamTarget = std::variant<Stdio, GivenDescriptor>;

// WorkerSpec is the blueprint of one worker, complete and plain, so that it can be handed to the process that
// forks.
struct WorkerSpec {
    // argv: the executable, looked up on the PATH of `environment` if it has no slash, and its arguments,
    // passed on byte for byte. Never empty.
    std::vector<std::string> argv;
    Environment environment;  // all of it: nothing else is inherited
    int rank = 0;
    int local_rank = 0;
    StreamTarget standard_input = Stdio::null;
    StreamTarget standard_output = Stdio::inherit;
    StreamTarget standard_error = Stdio::inherit;
    // ignore_hangup: SIGHUP was ignored when the launcher was entered (nohup), and stays ignored in the
    // worker.
    bool ignore_hangup = false;
    // takes_terminal: standard input is a terminal that belongs to no session, and becomes the terminal of
    // the worker's session. Ctrl-C typed there reaches the worker, and a debugger can lend the terminal to
    // its program.
    bool takes_terminal = false;
    // cpus: where the worker may run, ascending; empty: on the launcher's CPUs.
    std::vector<int> cpus;
    // memory_node: the NUMA node that gives the worker memory as long as it has some; -1: no policy.
    int memory_node = -1;
    // open_files: the soft limit of descriptors that the launcher was given; 0: unchanged.
    std::uint64_t open_files = 0;
    // death_signal: sent to the worker when the process that started it has ended; 0: none.
    int death_signal = SIGKILL;
};
BOOST_DESCRIBE_STRUCT(WorkerSpec, (),
                      (argv, environment, rank, local_rank, standard_input, standard_output, standard_error,
                       ignore_hangup, takes_terminal, cpus, memory_node, open_files, death_signal))

// LauncherTraces says what a launcher cleans up at its end. Where the launcher was killed, its guardian does
// so.

struct LauncherTraces {
    // modes_before and modes_set: the modes of the terminal that one worker has or gets, before the launcher
    // and as the launcher sets them (bytes_of_modes). Empty while no worker has it.
    std::string modes_before;
    std::string modes_set;
    std::string folder;  // the launcher's own, in the folder for temporary files
    std::string pipe;    // a named one that the launcher has made; empty for none
};
BOOST_DESCRIBE_STRUCT(LauncherTraces, (), (modes_before, modes_set, folder, pipe))

std::string bytes_of_modes(const termios& modes);

// Restores the terminal's modes unless another program (a shell) has set others meanwhile. Also removes the
// pipe, and the folder if nothing is in it. The caller may be in the background (SIGTTOU is blocked then); -1
// for no terminal.
void remove_traces(const LauncherTraces& traces, int terminal) noexcept;

// Started: a worker runs, its program was executed. `pid` is also the number of its session and process
// group.
struct Started {
    pid_t pid = 0;
    bool in_own_cgroup = false;  // the worker and its descendants are alone in a cgroup (see JobCgroup)
};
BOOST_DESCRIBE_STRUCT(Started, (), (pid, in_own_cgroup))

// StartFailure: a worker could not be started, and no process of it is left.
struct StartFailure {
    int error_number = 0;  // errno
    std::string text;      // a whole sentence without final stop that names argv[0] and the reason
    int exit_code = kExitSystem;
};
BOOST_DESCRIBE_STRUCT(StartFailure, (), (error_number, text, exit_code))

// WorkerObserver hears from a runner of each worker started for it. The observer outlives the worker, or has
// the runner forget it. The end and the group's end come once, in this order, from the executor and never
// from inside a call of the runner's own functions. Calling the runner from inside them is allowed.
class WorkerObserver {
  public:
    // Tells what the worker has used of the machine. Comes before worker_exited(), and not at all where the
    // system does not say.
    virtual void worker_used(pid_t worker, const ResourceUse& use) {
        static_cast<void>(worker), static_cast<void>(use);
    }
    // Tells that the worker itself ended and was reaped. Other processes of its process group may still be
    // there.
    virtual void worker_exited(pid_t worker, const ExitStatus& status) = 0;
    // Tells that no process of the worker's process group is left.
    virtual void worker_group_gone(pid_t worker) = 0;

  protected:
    ~WorkerObserver() = default;
};

// kMaxSurvivors: processes that a sweep names at most. A machine with more of them needs attention anyway.
inline constexpr std::size_t kMaxSurvivors = 64;

struct SweepResult {
    int killed = 0;                   // processes it killed besides the workers themselves
    std::vector<Survivor> survivors;  // still there when its timeout ended; normally none
    // nothing_left: the kernel has said that there is no child any more. Orphans become our children, so
    // nothing is left at all.
    bool nothing_left = false;
};
BOOST_DESCRIBE_STRUCT(SweepResult, (), (killed, survivors, nothing_left))

class ProcessRunner {
  public:
    ProcessRunner() = default;
    ProcessRunner(const ProcessRunner&) = delete;
    ProcessRunner& operator=(const ProcessRunner&) = delete;
    virtual ~ProcessRunner() = default;

    using StartResult = std::variant<Started, StartFailure>;

    virtual StartResult start(const WorkerSpec& spec, WorkerObserver& observer) = 0;

    // Starts the workers in order, up to the first failure, and returns the results up to that one.
    virtual std::vector<StartResult> start_all(std::span<const WorkerSpec> specs, WorkerObserver& observer) {
        std::vector<StartResult> results;
        for (const WorkerSpec& spec : specs) {
            results.push_back(start(spec, observer));
            if (std::holds_alternative<StartFailure>(results.back())) break;
        }
        return results;
    }

    // Sends the signal to the members of the worker's process group that the scope says, even when the worker
    // itself has ended. SIGKILL, SIGSTOP and SIGCONT always go to all. Does nothing after
    // worker_group_gone(), or where no process is left.
    virtual void signal_worker(pid_t worker, int signal, SignalScope scope) = 0;

    // Kills and reaps every process that workers started, in any session or process group, and the workers
    // themselves if some are left. Calls back once, from the executor, when nothing is left or the timeout
    // has ended, after the events of every worker that ended. Only one sweep at a time; no start until it is
    // done.
    virtual void sweep(std::chrono::milliseconds timeout, std::function<void(const SweepResult&)> done) = 0;

    // Makes the runner stop (SIGSTOP), at `end`, what a sweep would kill, and kill it after the end's
    // patience, unless another end is set before. Works even while the caller stands still. A later end lets
    // the workers go on. A runner that cannot do so does nothing.
    virtual void set_lease(const std::optional<LeaseEnd>& end) { static_cast<void>(end); }

    // Tells the runner what to clean up if the caller is killed. A runner that cannot do so does nothing.
    virtual void set_traces(const LauncherTraces& traces) { static_cast<void>(traces); }

    // Makes the runner report nothing more about the worker, whatever becomes of it: even SIGKILL did not end
    // it.
    virtual void forget(pid_t worker) = 0;

    // Lets the runner's own processes end, and kills what is left, while the caller still has other things to
    // do. Afterwards only the destructor is called.
    virtual void hang_up() {}

    // Returns the cgroup v2 folder made for the worker last started with this local rank, which is alone
    // there with its descendants. Empty where there is none. The folder stays until the next start or the
    // runner's end.
    virtual std::filesystem::path worker_cgroup(int local_rank) const = 0;
};

}  // namespace launch
}  // namespace ddprun
