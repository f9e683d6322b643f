#include "launcher/output/console_writer.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace ddprun::inline launch {
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
            // On a full disk what comes later may find room.
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

}  // namespace ddprun::inline launch
