#include "launcher/process/end_descriptor.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun::inline launch {
namespace {

// It also ends when somebody else reaps the child, which is none any more then.
void await_end(pid_t child) {
    siginfo_t ended = {};
    while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
}

OwnedDescriptor open_pipe_to_end(pid_t child) {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return OwnedDescriptor();
    OwnedDescriptor reader(ends[0]);
    const auto writer = std::make_shared<OwnedDescriptor>(ends[1]);
    try {
        start_without_signals([child, writer] {
            await_end(child);
            writer->reset();
        }).detach();
    } catch (const std::system_error& error) {
        reader.reset();
        errno = error.code().value();
    }
    return reader;
}

}  // namespace

OwnedDescriptor open_process(pid_t process) {
    // glibc 2.36 declares pidfd_open for C only.
    return OwnedDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

// A filter that does not know the call may say that it is not permitted, which the call itself never says.
bool means_no_pidfds(int error_number) { return error_number == ENOSYS || error_number == EPERM; }

OwnedDescriptor open_end_of_child(pid_t child) {
    OwnedDescriptor pidfd = open_process(child);
    return pidfd || !means_no_pidfds(errno) ? std::move(pidfd) : open_pipe_to_end(child);
}

}  // namespace ddprun::inline launch
