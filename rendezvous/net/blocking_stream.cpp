#include "rendezvous/net/blocking_stream.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ddprun {

BlockingStream::BlockingStream(BlockingStream&& other) noexcept { *this = std::move(other); }

BlockingStream& BlockingStream::operator=(BlockingStream&& other) noexcept {
    if (this == &other) return *this;
    close();
    fd_ = std::exchange(other.fd_, -1);
    ahead_ = other.ahead_;
    ahead_begin_ = std::exchange(other.ahead_begin_, 0);
    ahead_end_ = std::exchange(other.ahead_end_, 0);
    return *this;
}

BlockingStream::~BlockingStream() { close(); }

void BlockingStream::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
    ahead_begin_ = ahead_end_ = 0;
}

BlockingStream::Outcome BlockingStream::send(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
        ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            bytes.remove_prefix(static_cast<std::size_t>(count));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (Outcome outcome = await(POLLOUT, deadline); outcome != Outcome::done) return outcome;
        } else if (errno != EINTR) {
            return Outcome::lost;
        }
    }
    return Outcome::done;
}

BlockingStream::Outcome BlockingStream::receive(char* bytes, std::size_t size, Deadline deadline) {
    while (size > 0) {
        std::size_t count = std::min(size, ahead_end_ - ahead_begin_);
        if (count > 0) {
            std::memcpy(bytes, ahead_.data() + ahead_begin_, count);
            ahead_begin_ += count;
        } else {
            bool direct = size >= ahead_.size();
            char* room = direct ? bytes : ahead_.data();
            std::size_t received = 0;
            Outcome outcome = fill(room, direct ? size : ahead_.size(), received, deadline);
            if (outcome != Outcome::done) return outcome;
            if (!direct) {
                ahead_begin_ = 0;
                ahead_end_ = received;
                continue;
            }
            count = received;
        }
        bytes += count;
        size -= count;
    }
    return Outcome::done;
}

BlockingStream::Outcome BlockingStream::fill(char* bytes, std::size_t size, std::size_t& count,
                                             Deadline deadline) {
    for (;;) {
        if (Outcome outcome = await(POLLIN, deadline); outcome != Outcome::done) return outcome;
        ssize_t received = ::recv(fd_, bytes, size, MSG_DONTWAIT);
        if (received > 0) {
            count = static_cast<std::size_t>(received);
            return Outcome::done;
        }
        if (received == 0) return Outcome::lost;
        if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return Outcome::lost;
    }
}

BlockingStream::Outcome BlockingStream::await(short events, Deadline deadline) const {
    using std::chrono::milliseconds;
    for (;;) {
        auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
        constexpr milliseconds kLongest = std::chrono::hours(1);
        pollfd event{fd_, events, 0};
        int ready = ::poll(&event, 1, static_cast<int>(std::clamp(left, milliseconds(0), kLongest).count()));
        if (ready > 0) return Outcome::done;
        if (ready < 0 && errno != EINTR) return Outcome::lost;
        if (ready == 0 && left <= kLongest) return Outcome::timed_out;
    }
}

}  // namespace ddprun
