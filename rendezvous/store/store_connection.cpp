#include "rendezvous/store/store_connection.hpp"

#include <sys/socket.h>
#include <array>
#include <cerrno>

namespace ddprun {
inline namespace base {
namespace {

// A connection sends so much in one go, in so many pieces, before the others have their turn.
constexpr std::size_t kBytesPerTurn = std::size_t{1} << 20;
constexpr std::size_t kPiecesPerSend = 64;

}  // namespace

StoreConnection::Sent StoreConnection::send_turn() {
    if (pipe) return hand_to_pipe(kBytesPerTurn);
    std::size_t left = kBytesPerTurn;
    std::array<iovec, kPiecesPerSend> pieces;
    while (is_open() && outbox.pending() > 0) {
        if (left == 0) return Sent::rest_later;
        msghdr message{};
        message.msg_iov = pieces.data();
        message.msg_iovlen = outbox.gather(pieces, left);
        const ssize_t count = ::sendmsg(fd.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            outbox.consume(static_cast<std::size_t>(count));
            left -= static_cast<std::size_t>(count);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return Sent::rest_later;
        } else if (errno != EINTR) {
            return Sent::broken;
        }
    }
    return Sent::all;
}

StoreConnection::Sent StoreConnection::hand_to_pipe(std::size_t most) {
    std::array<iovec, kPiecesPerSend> pieces;
    while (outbox.pending() > 0) {
        const std::size_t count = outbox.gather(pieces, most);
        const std::size_t taken = most == 0 ? 0 : pipe->take(std::span(pieces.data(), count));
        if (taken == 0) return Sent::rest_later;
        outbox.consume(taken);
        most -= taken;
    }
    return Sent::all;
}

void StoreConnection::cancel_deadlines() {
    progressing = false;
    draining = false;
    progress_deadline.cancel();
    drain_deadline.cancel();
}

}  // namespace base
}  // namespace ddprun
