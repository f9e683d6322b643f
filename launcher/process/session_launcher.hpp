// SessionLauncher: starts a worker as the leader of its own session. A launcher in the sense of Boost.Process
// v2: a callable that returns a basic_process; the extension point that its documentation names.
//
// Why not the default launcher of Boost 1.81: after fork it runs execution_context::notify_fork and opendir,
// which allocate and lock, in a process that has a second thread; when exec fails the child calls exit(), so
// that our own atexit handlers and static destructors run in it, and nobody reaps it; its descriptor closing
// leaks some; the child stays in our process group and inherits ignored signals.
//
// As vfork does (spawn.hpp), not fork: no page tables are copied, and the parent is not slowed by
// copy-on-write afterwards. The rules of vfork are kept: the child calls only async-signal-safe functions,
// writes nothing of the parent's except its own argument slot, never returns, and runs with all signals
// blocked until their handlers are reset.
//
// What many workers have in common is found out once: which signals this process ignores, when the launcher
// is made, and where on the PATH a program is, see ExecSearch.
//
// Called from one thread, which must live as long as the process: Linux sends the parent-death signal when
// the *thread* that forked ends.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <variant>

#include "launcher/process/boost_process.hpp"
#include "launcher/process/exec_search.hpp"
#include "launcher/process/process_runner.hpp"
#include "launcher/process/spawn.hpp"
#include "launcher/process/worker_spec.hpp"

namespace ddprun::inline launch {

class SessionLauncher {
  public:
    using Process = boost::process::v2::basic_process<boost::asio::any_io_executor>;

    // Returns when the program runs, or with the reason why it does not; then no process is left behind. The
    // process is killed and reaped by the destructor of the returned object, its process group is not. With the open folder of a cgroup v2, the process
    // starts as a member of that cgroup where the kernel permits it.
    std::variant<Process, StartFailure> operator()(const boost::asio::any_io_executor& executor,
                                                   const WorkerSpec& spec, int cgroup = -1);

    // Whether the last process is a member of the cgroup.
    bool used_cgroup() const { return used_cgroup_; }

  private:
    const std::uint64_t ignored_ = ignored_signals();
    ExecSearch search_;
    bool used_cgroup_ = false;
};

}  // namespace ddprun::inline launch
