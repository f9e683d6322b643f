#include "rendezvous/door/door_link.hpp"

#include <sys/socket.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "rendezvous/net/socket.hpp"
#include "rendezvous/store/wire.hpp"
#include "rendezvous/system/check.hpp"

namespace ddprun::inline job {

namespace {

constexpr std::size_t kDoorHeaderBytes = 9;

}  // namespace

void put_door_frame(std::string& out, DoorFrameKind kind, std::uint32_t channel, std::uint32_t count) {
    out += static_cast<char>(kind);
    put_u32(out, channel);
    put_u32(out, count);
}

void put_door_data(std::string& out, std::uint32_t channel, std::string_view data) {
    check(data.size() <= kMaxDoorData, "a frame of a door's client is too long");
    put_door_frame(out, DoorFrameKind::data, channel, static_cast<std::uint32_t>(data.size()));
    out += data;
}

void DoorFrames::feed(std::string_view bytes) {
    left_ = bytes;
    if (unfinished_.empty()) return;
    joined_ = std::exchange(unfinished_, {});
    joined_ += bytes;
    left_ = joined_;
}

DoorFrames::Status DoorFrames::next(DoorFrame& frame) {
    if (left_.size() < kDoorHeaderBytes) {
        unfinished_ = left_;
        return Status::incomplete;
    }
    const auto kind = static_cast<unsigned char>(left_[0]);
    if (kind > static_cast<unsigned char>(DoorFrameKind::close)) return Status::malformed;
    frame.kind = static_cast<DoorFrameKind>(kind);
    frame.channel = load_u32(left_.data() + 1);
    frame.count = load_u32(left_.data() + 5);
    const bool has_data = frame.kind == DoorFrameKind::data;
    const bool has_count = has_data || frame.kind == DoorFrameKind::credit;
    const std::size_t most = has_data ? kMaxDoorData : kDoorWindow;
    if (frame.channel == 0 || (frame.count > 0) != has_count || frame.count > most) return Status::malformed;
    const std::size_t data = has_data ? frame.count : 0;
    if (left_.size() - kDoorHeaderBytes < data) {
        unfinished_ = left_;
        return Status::incomplete;
    }
    frame.data = left_.substr(kDoorHeaderBytes, data);
    left_.remove_prefix(kDoorHeaderBytes + data);
    return Status::ready;
}

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kLinkReadBytes = std::size_t{64} << 10;
// Read in a row before the executor's other work has its turn.
constexpr int kReadsPerTurn = 4;
// A string that was as long as a batch may be keeps no more than this for the next one.
constexpr std::size_t kKeptBytes = std::size_t{64} << 10;

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

void SealedLink::start() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
        if (!self->socket_.is_open()) return;
        const std::string heard = std::exchange(self->heard_, {});
        if (!heard.empty() && !self->events_.on_text(heard)) return self->end();
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
        if (!plain || !events_.on_text(*plain)) return end();
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
    if (is_blocked_ || !socket_.is_open()) return;
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

void SealedLink::end() {
    if (!socket_.is_open()) return;
    close();
    events_.on_over();
}

}  // namespace ddprun::inline job
