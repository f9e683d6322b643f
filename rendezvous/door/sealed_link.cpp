#include "rendezvous/door/sealed_link.hpp"

#include <sys/socket.h>
#include <boost/asio/post.hpp>

#include <array>
#include <cerrno>
#include <utility>

#include "rendezvous/net/socket.hpp"

namespace ddprun {
inline namespace job {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kLinkReadBytes = std::size_t{64} << 10;
// Read in a row before the executor's other work has its turn.
constexpr int kReadsPerTurn = 4;
// A string that was as long as a batch may be keeps no more than this for the next one.
constexpr std::size_t kKeptBytes = std::size_t{64} << 10;

constexpr std::string_view kNoneOfOurs = "it says what no door says";

void empty(std::string& text) {
    text.clear();
    if (text.capacity() > kKeptBytes) std::string().swap(text);
}

}  // namespace

SealedLink::SealedLink(asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
                       SealedLinkEvents events)
    : socket_(std::move(socket)),
      records_(std::move(records)),
      heard_(std::move(heard)),
      events_(std::move(events)),
      stuck_(socket_.get_executor()) {
    limit_silence(socket_, kSilence);
}

// How the link works:
// 1. Each wait for the socket ends with a few reads in a row; what they bring is opened and handed over at
//    once (read_some).
// 2. What is to be sent is appended to text() by anybody; the first append of a turn asks for one send behind
//    all handlers of the turn, so that many small frames go out as one record.
// 3. What the socket does not take is kept sealed until it can be written. Where more than kHighWater waits
//    there is no room, and on_room follows when all has gone (flush).
// 4. A socket that takes nothing for too long, a record that does not open, or the other side's end are the
//    link's end.
void SealedLink::start() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (!self->socket_.is_open()) return;
        const std::string heard = std::exchange(self->heard_, {});
        if (!heard.empty() && !self->events_.on_text(heard)) return self->end(kNoneOfOurs);
        if (self->socket_.is_open()) self->wait();
    });
}

void SealedLink::wait() {
    socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
        if (error || !self->socket_.is_open()) return;
        self->read_some();
        if (self->socket_.is_open()) self->wait();
    });
}

void SealedLink::read_some() {
    std::array<char, kLinkReadBytes> bytes;
    for (int turn = 0; turn < kReadsPerTurn && socket_.is_open(); ++turn) {
        const ssize_t count = ::recv(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (count <= 0) return end();
        const auto plain = records_.open({bytes.data(), static_cast<std::size_t>(count)});
        if (!plain) return end();
        if (!events_.on_text(*plain)) return end(kNoneOfOurs);
        // The rest has not come yet.
        if (static_cast<std::size_t>(count) < bytes.size()) return;
    }
}

std::string& SealedLink::text() {
    if (!std::exchange(is_due_, true)) {
        asio::post(socket_.get_executor(), [self = shared_from_this()] {
            self->is_due_ = false;
            self->flush();
        });
    }
    return plain_;
}

bool SealedLink::has_room() {
    const bool is_full = waiting() >= kHighWater;
    if (is_full) is_missed_ = true;
    return !is_full;
}

void SealedLink::flush() {
    if (!socket_.is_open()) return;
    if (is_blocked_) {
        if (waiting() > kMostWaiting) end("it asks for more than it reads");
        return;
    }
    while (!plain_.empty()) {
        sealed_ = records_.seal(plain_);
        empty(plain_);
        if (!send_some()) return;
    }
    if (std::exchange(is_missed_, false)) events_.on_room();
}

// False: not all has gone.
bool SealedLink::send_some() {
    while (sent_ < sealed_.size()) {
        const ssize_t count = ::send(socket_.native_handle(), sealed_.data() + sent_, sealed_.size() - sent_,
                                     MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            sent_ += static_cast<std::size_t>(count);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            wait_to_send();
            return false;
        } else if (errno != EINTR) {
            end();
            return false;
        }
    }
    empty(sealed_);
    sent_ = 0;
    return true;
}

void SealedLink::wait_to_send() {
    is_blocked_ = true;
    stuck_.expires_after(kStuckTimeout);
    stuck_.async_wait([self = shared_from_this()](error_code cancelled) {
        if (!cancelled) self->end();
    });
    socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](error_code error) {
        if (error || !self->socket_.is_open()) return;
        self->stuck_.cancel();
        self->is_blocked_ = false;
        if (self->send_some()) self->flush();
    });
}

void SealedLink::close() {
    error_code ignored;  // It is over either way.
    socket_.close(ignored);
    stuck_.cancel();
}

void SealedLink::end(std::string_view why) {
    if (!socket_.is_open()) return;
    close();
    events_.on_over(why);
}

}  // namespace job
}  // namespace ddprun
