// SessionLauncher starts a worker as the leader of its own session, as a launcher in the sense of
// Boost.Process v2: a callable that returns a basic_process, which is the extension point that its
// documentation names.
//
// The default launcher of Boost 1.81 will not do. After fork it runs execution_context::notify_fork and
// opendir, which allocate and lock, in a process that has a second thread. When exec fails, the child calls
// exit(), which runs our own atexit handlers and static destructors in it, and is never reaped. The closing
// of descriptors leaks some. The child stays in our process group and inherits ignored signals.
//
// The child borrows the memory of its parent until it is another program, as vfork makes one, because a copy
// of the page tables costs more than all the rest of a start. Where the kernel has clone3 (Linux 5.5), the
// child is born without the signal handlers of the parent. With the open folder of a cgroup v2 (Linux 5.7)
// the child is born as a member of that cgroup: being moved later would cost every worker milliseconds. The
// rules of vfork are kept: the child calls only async-signal-safe functions and never returns. The child
// writes nothing of the parent's except its own argument slot, and runs with all signals blocked until their
// handlers are reset.
//
// What many workers have in common is found out once: which signals this process ignores, when the launcher
// is made, and where on the PATH a program is (ExecSearch).
//
// Called by one thread, which must live as long as the process: Linux sends the parent-death signal when the
// *thread* that forked ends.
#pragma once

// BOOST_PROCESS_USE_STD_FS must be set wherever Boost.Process is included. The headers of 1.81 then use the
// three in front of it without including them. Asio's header among the three comes by itself on some
// processors only.
#define BOOST_PROCESS_USE_STD_FS 1

#include <boost/optional.hpp>
#include <boost/type_traits.hpp>
// Kept apart from the two above, so as not to be sorted with them.
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/detail/throw_error.hpp>
#include <boost/process/v2/process.hpp>
#include <cstdint>
#include <variant>

#include "launcher/process/child_exec.hpp"
#include "launcher/process/process_runner.hpp"

namespace ddprun {
inline namespace launch {

class SessionLauncher {
  public:
    using Process = boost::process::v2::basic_process<boost::asio::any_io_executor>;

    SessionLauncher();

    // Returns when the program runs, or with the reason why it does not; then no process is left behind. The
    // destructor of the returned object kills and reaps the process, but not its process group. With the open
    // folder of a cgroup v2, the process starts as a member of that cgroup where the kernel permits it.
    std::variant<Process, StartFailure> operator()(const boost::asio::any_io_executor& executor,
                                                   const WorkerSpec& spec, int cgroup = -1);

    // Says whether the last process is a member of the cgroup.
    bool used_cgroup() const { return used_cgroup_; }

  private:
    const std::uint64_t ignored_;  // signals, as in ChildPlan::signals_to_reset
    ExecSearch search_;
    bool used_cgroup_ = false;
};

}  // namespace launch
}  // namespace ddprun
