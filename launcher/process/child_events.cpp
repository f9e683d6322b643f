#include "launcher/process/child_events.hpp"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
namespace {

int child_signal_descriptor() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &child, nullptr);
    // Ignored, as some launchers leave it, it would throw away how children ended.
    ::signal(SIGCHLD, SIG_DFL);
    const int fd = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) fail_errno(errno, "cannot wait for child processes (signalfd)");
    return fd;
}

}  // namespace

ChildEvents::ChildEvents(const boost::asio::any_io_executor& executor, std::function<void()> on_change)
    : signals_(executor, child_signal_descriptor()), on_change_(std::move(on_change)) {
    wait();
}

void ChildEvents::wait() {
    signals_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                        alive_.guard([this](const boost::system::error_code& error) {
                            if (error) return;
                            signalfd_siginfo info;
                            while (::read(signals_.native_handle(), &info, sizeof info) > 0) {
                            }
                            wait();
                            on_change_();
                        }));
}

}  // namespace ddprun::inline launch
