#include "launcher/output/worker_channel.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "launcher/process/descriptors.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {
namespace {

void set_nonblocking(int fd) {
    int on = 1;
    ::ioctl(fd, FIONBIO, &on);
}

// It has no writer, and errno is set, where there are no pseudo-terminals.
WorkerChannel open_terminal(int like) {
    WorkerChannel channel{
        above_standard_streams(OwnedDescriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC))),
        OwnedDescriptor()};
    const int reader = channel.reader.get();
    if (reader < 0 || ::grantpt(reader) != 0 || ::unlockpt(reader) != 0) return channel;
    // It is opened by the descriptor, not by the name: in a container the name may belong to another mount.
    channel.writer =
        above_standard_streams(OwnedDescriptor(::ioctl(reader, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)));
    copy_window_size(like, reader);
    set_nonblocking(reader);
    return channel;
}

}  // namespace

WorkerChannel make_pipe_channel(int size) {
    WorkerChannel channel;
    if (!make_pipe(channel.reader, channel.writer))
        fail_errno(errno, "cannot make a pipe for a worker's output" + limit_remedy(errno));
    ::fcntl(channel.writer.get(), F_SETPIPE_SZ, size);
    set_nonblocking(channel.reader.get());
    return channel;
}

WorkerChannel make_terminal_channel(int like, int size) {
    WorkerChannel channel = open_terminal(like);
    termios modes{};
    if (!channel.writer || ::tcgetattr(channel.writer.get(), &modes) != 0) return make_pipe_channel(size);
    modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    modes.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (::tcsetattr(channel.writer.get(), TCSANOW, &modes) != 0) return make_pipe_channel(size);
    return channel;
}

WorkerChannel make_interactive_channel(int like) {
    WorkerChannel channel = open_terminal(like);
    termios modes{};
    if (!channel.writer || ::tcgetattr(like, &modes) != 0 ||
        ::tcsetattr(channel.writer.get(), TCSANOW, &modes) != 0) {
        fail_errno(errno, "cannot make a terminal for the rank of --tty");
    }
    return channel;
}

void copy_window_size(int like, int reader) {
    winsize size{};
    if (::ioctl(like, TIOCGWINSZ, &size) == 0) ::ioctl(reader, TIOCSWINSZ, &size);
}

}  // namespace launch
}  // namespace ddprun
