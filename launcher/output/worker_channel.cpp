#include "launcher/output/worker_channel.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "launcher/process/descriptors.hpp"
#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/error.hpp"

namespace ddprun::inline launch {
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

namespace {

using TerminalStream = boost::asio::posix::stream_descriptor;

constexpr std::size_t kRelayChunk = 4096;

int open_again(int terminal) {
    const std::string path = fmt::format("/proc/self/fd/{}", terminal);
    const int fd = ::open(path.c_str(), O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail_errno(errno, "cannot open the terminal for the rank of --tty");
    return fd;
}

// Output keeps its processing, since the other ranks' lines end in a line feed only.
termios raw_modes(termios modes) {
    const tcflag_t output = modes.c_oflag;
    ::cfmakeraw(&modes);
    modes.c_oflag = output;
    return modes;
}

enum class Step { done, not_yet, over };

// Reads once if nothing is pending, writes once.
Step step(int from, int to, std::string& pending) {
    if (pending.empty()) {
        std::array<char, kRelayChunk> buffer;
        const ssize_t count = ::read(from, buffer.data(), buffer.size());
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Step::not_yet;
        if (count <= 0) return Step::over;
        pending.assign(buffer.data(), static_cast<std::size_t>(count));
    }
    const ssize_t count = ::write(to, pending.data(), pending.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Step::not_yet;
    if (count < 0) return Step::over;
    pending.erase(0, static_cast<std::size_t>(count));
    return Step::done;
}

bool readable(int fd) {
    pollfd event{fd, POLLIN, 0};
    return ::poll(&event, 1, 0) > 0;
}

}  // namespace

TerminalRelay::TerminalRelay(const boost::asio::any_io_executor& executor, int terminal)
    : pseudo_(executor), real_(executor, open_again(terminal)) {
    WorkerChannel channel = make_interactive_channel(terminal);
    worker_end_ = std::move(channel.writer);
    pseudo_.assign(channel.reader.release());
    has_modes_ = ::tcgetattr(real_.native_handle(), &before_) == 0;
    set_ = raw_modes(before_);
}

TerminalRelay::~TerminalRelay() { finish(); }

void TerminalRelay::start() {
    worker_end_.reset();
    raw_ = has_modes_ && ::tcsetattr(real_.native_handle(), TCSANOW, &set_) == 0;
    pass(keys_);
    pass(display_);
}

void TerminalRelay::pass(Direction& direction) {
    auto next = alive_.guard([this, &direction](const boost::system::error_code& error) {
        if (error) return;
        if (step(direction.from.native_handle(), direction.to.native_handle(), direction.pending) !=
            Step::over) {
            pass(direction);
        }
    });
    if (direction.pending.empty()) {
        direction.from.async_wait(TerminalStream::wait_read, std::move(next));
    } else {
        direction.to.async_wait(TerminalStream::wait_write, std::move(next));
    }
}

void TerminalRelay::add_to(LauncherTraces& traces) const {
    if (!has_modes_ || !pseudo_.is_open()) return;
    traces.modes_before = bytes_of_modes(before_);
    traces.modes_set = bytes_of_modes(set_);
}

void TerminalRelay::window_changed() { copy_window_size(real_.native_handle(), pseudo_.native_handle()); }

void TerminalRelay::finish() {
    alive_.end();
    if (!pseudo_.is_open()) return;
    worker_end_.reset();
    show_rest();
    pseudo_.close();
    if (raw_) ::tcsetattr(real_.native_handle(), TCSANOW, &before_);
    real_.close();
}

// No writer is left, so what there is can be read without waiting.
void TerminalRelay::show_rest() {
    const auto deadline = std::chrono::steady_clock::now() + kDisplayTimeout;
    while (step(pseudo_.native_handle(), real_.native_handle(), display_.pending) != Step::over) {
        // All is taken and shown, or there is nothing to take: only what cannot be killed still has the other end.
        if (display_.pending.empty()) {
            if (!readable(pseudo_.native_handle())) return;
            continue;
        }
        pollfd writable{real_.native_handle(), POLLOUT, 0};
        if (has_passed(deadline) || ::poll(&writable, 1, poll_timeout(deadline)) == 0) return;
    }
}

}  // namespace ddprun::inline launch
