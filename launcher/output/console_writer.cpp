#include "launcher/output/console_writer.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ddprun {
inline namespace launch {
namespace {

// A terminal that does not tell has so many.
constexpr std::size_t kUsualColumns = 80;

}  // namespace

ConsoleWriter::ConsoleWriter(int fd) : fd_(fd), terminal_(::isatty(fd) == 1) {
    struct stat what {};
    if (::fstat(fd, &what) != 0) {
        closed_ = true;
    } else if (S_ISSOCK(what.st_mode)) {
        manner_ = Manner::socket;
    } else if (S_ISFIFO(what.st_mode) || terminal_) {
        const std::string name = fmt::format("/proc/self/fd/{}", fd);
        own_.reset(::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        manner_ = own_ ? Manner::own_description : Manner::small_writes;
    }
}

void ConsoleWriter::write(std::string_view bytes) {
    flush();
    if (blocked()) {
        buffer_ += bytes;
    } else {
        buffer_ = bytes.substr(write_some(bytes));
        blocked_ = !buffer_.empty();
    }
}

void ConsoleWriter::flush() {
    begin_ += write_some(std::string_view(buffer_).substr(begin_));
    blocked_ = begin_ < buffer_.size();
    if (blocked_) return;
    buffer_.clear();
    begin_ = 0;
}

void ConsoleWriter::give_up() {
    gave_up_ = true;
    flush();
}

std::size_t ConsoleWriter::columns() const {
    winsize size{};
    return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

// Returns how many of the bytes are done with: written or thrown away.
std::size_t ConsoleWriter::write_some(std::string_view bytes) {
    if (gave_up_) {
        dropped_ += bytes.size();
        return bytes.size();
    }
    std::size_t done = 0;
    while (done < bytes.size() && !closed_) {
        const long count = write_once(bytes.substr(done));
        if (count >= 0) {
            done += static_cast<std::size_t>(count);
            written_ += static_cast<std::uint64_t>(count);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return done;
        } else if (errno == EPIPE || errno == EIO || errno == ECONNRESET || errno == EBADF) {
            closed_ = true;
        } else if (errno != EINTR) {
            // The disk is full perhaps, and later bytes may find room.
            dropped_ += bytes.size() - done;
            return bytes.size();
        }
    }
    return bytes.size();
}

// Writes once, as write(2) does.
long ConsoleWriter::write_once(std::string_view bytes) const {
    switch (manner_) {
        case Manner::plain: return ::write(fd_, bytes.data(), bytes.size());
        case Manner::own_description: return ::write(own_.get(), bytes.data(), bytes.size());
        case Manner::socket: return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        case Manner::small_writes: break;
    }
    pollfd writable{fd_, POLLOUT, 0};
    if (::poll(&writable, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
}

// Asio would make the console non-blocking, also for the others who have it; by an epoll set of its own it
// stays as it is.
bool AwaitedConsole::await_room(std::function<void()> on_room) {
    if (!writer.blocked() || is_awaited_) return true;
    if (!room_.is_open()) {
        OwnedDescriptor set(::epoll_create1(EPOLL_CLOEXEC));
        epoll_event event{EPOLLOUT, {}};
        if (::epoll_ctl(set.get(), EPOLL_CTL_ADD, writer.poll_fd(), &event) != 0) return false;
        room_.assign(set.release());
    }
    is_awaited_ = true;
    room_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this, on_room = std::move(on_room)](const boost::system::error_code& error) {
                         is_awaited_ = false;
                         if (!error) on_room();
                     });
    return true;
}

bool are_one_console(int a, int b) {
    struct stat first {};
    struct stat second {};
    return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino && first.st_rdev == second.st_rdev;
}

}  // namespace launch
}  // namespace ddprun
