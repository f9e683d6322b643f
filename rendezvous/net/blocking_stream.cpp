#include "rendezvous/net/blocking_stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ddprun::inline base {

void BlockingStream::close() {
    fd_.reset();
    ahead_begin_ = ahead_end_ = 0;
}

BlockingStream::Outcome BlockingStream::send(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
        ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
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
        Outcome outcome = Outcome::done;
        if (count > 0) {
            std::memcpy(bytes, ahead_.data() + ahead_begin_, count);
            ahead_begin_ += count;
        } else if (size >= ahead_.size()) {
            outcome = fill(bytes, size, count, deadline);
        } else {
            ahead_begin_ = ahead_end_ = 0;
            outcome = fill(ahead_.data(), ahead_.size(), ahead_end_, deadline);
        }
        if (outcome != Outcome::done) return outcome;
        bytes += count;
        size -= count;
    }
    return Outcome::done;
}

BlockingStream::Outcome BlockingStream::fill(char* bytes, std::size_t size, std::size_t& count,
                                             Deadline deadline) {
    for (;;) {
        if (Outcome outcome = await(POLLIN, deadline); outcome != Outcome::done) return outcome;
        ssize_t received = ::recv(fd_.get(), bytes, size, MSG_DONTWAIT);
        if (received > 0) {
            count = static_cast<std::size_t>(received);
            return Outcome::done;
        }
        if (received == 0) return Outcome::lost;
        if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) return Outcome::lost;
    }
}

BlockingStream::Outcome BlockingStream::await(short events, Deadline deadline) const {
    for (;;) {
        pollfd event{fd_.get(), events, 0};
        int ready = ::poll(&event, 1, poll_timeout(deadline));
        if (ready > 0) return Outcome::done;
        if (ready < 0 && errno != EINTR) return Outcome::lost;
        if (ready == 0 && has_passed(deadline)) return Outcome::timed_out;
    }
}

}  // namespace ddprun::inline base
