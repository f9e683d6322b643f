#include "rendezvous/door/door_link.hpp"

#include <boost/asio/post.hpp>

#include <sys/socket.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "rendezvous/base/check.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/store/wire.hpp"

namespace ddprun {
inline namespace job {

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

bool DoorFrames::take(std::string_view bytes, const std::function<bool(const DoorFrame&)>& take_frame) {
    feed(bytes);
    for (DoorFrame frame;;) {
        const Status status = next(frame);
        if (status != Status::ready) return status == Status::incomplete;
        if (!take_frame(frame)) return false;
    }
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

namespace {

std::size_t bytes_in(std::span<const iovec> pieces) {
    std::size_t sum = 0;
    for (const iovec& piece : pieces) sum += piece.iov_len;
    return sum;
}

}  // namespace

class DoorHost::Channel final : public StorePipe {
  public:
    Channel(DoorHost& host, std::uint32_t number) : host_(host), number_(number) {}

    std::size_t take(std::span<const iovec> pieces) override {
        if (is_gone_) return bytes_in(pieces);
        if (!host_.link_->has_room()) {
            if (!std::exchange(waits_, true)) host_.waiting_.push_back(number_);
            return 0;
        }
        std::size_t taken = 0;
        std::string& out = host_.link_->text();
        for (const iovec& piece : pieces) {
            std::string_view left(static_cast<const char*>(piece.iov_base), piece.iov_len);
            left = left.substr(0, credit_);
            credit_ -= left.size();
            taken += left.size();
            for (; !left.empty(); left.remove_prefix(std::min(left.size(), kMaxDoorData)))
                put_door_data(out, number_, left.substr(0, kMaxDoorData));
        }
        return taken;
    }

    void served(std::size_t bytes) override {
        owed_ += bytes;
        if (owed_ < kDoorCreditStep) return;
        put_door_frame(host_.link_->text(), DoorFrameKind::credit, number_,
                       static_cast<std::uint32_t>(owed_));
        window_ += std::exchange(owed_, 0);
    }

    void ended() override {
        put_door_frame(host_.link_->text(), DoorFrameKind::close, number_);
        host_.channels_.erase(number_);
    }

    // The client has sent so much, which was taken now. False: it was not allowed to.
    bool receive(std::size_t bytes) {
        if (bytes > window_) return false;
        window_ -= bytes;
        return true;
    }
    // False: nobody gives back more than was sent.
    bool credit(std::size_t bytes) {
        credit_ += bytes;
        return credit_ <= kDoorWindow;
    }
    void stop_waiting() { waits_ = false; }
    // Nobody is there to whom it could be sent.
    void drop_replies() { is_gone_ = true; }

    ConnectionId client = StoreService::kNoConnection;

  private:
    DoorHost& host_;
    std::uint32_t number_;
    std::size_t credit_ = kDoorWindow;  // of what may be sent
    std::size_t window_ = kDoorWindow;  // of what may come
    std::size_t owed_ = 0;              // to be given back
    bool waits_ = false;                // for room in the link
    bool is_gone_ = false;              // the client
};

DoorHost::DoorHost(boost::asio::ip::tcp::socket socket, SealedRecords records, std::string heard,
                   StoreService& store, std::function<void(std::string_view)> on_over)
    : store_(store), on_over_(std::move(on_over)) {
    link_ = std::make_shared<SealedLink>(
        std::move(socket), std::move(records), std::move(heard),
        SealedLinkEvents{.on_text =
                             [this](std::string_view plain) {
                                 return frames_.take(plain,
                                                     [this](const DoorFrame& frame) { return take(frame); });
                             },
                         .on_room = [this] { has_room(); },
                         .on_over = [this](std::string_view why) { std::exchange(on_over_, nullptr)(why); }});
    link_->start();
}

DoorHost::~DoorHost() {
    link_->close();
    for (const auto& [number, channel] : channels_) store_.detach(channel->client);
}

// False: a door does not say that.
bool DoorHost::take(const DoorFrame& frame) {
    if (frame.kind == DoorFrameKind::open) return open(frame.channel);
    if (frame.channel > last_channel_) return false;
    const auto found = channels_.find(frame.channel);
    if (found == channels_.end()) return true;
    const std::shared_ptr<Channel> channel = found->second;
    switch (frame.kind) {
        case DoorFrameKind::data:
            if (!channel->receive(frame.count)) return false;
            store_.feed(channel->client, frame.data);
            break;
        case DoorFrameKind::credit:
            if (!channel->credit(frame.count)) return false;
            store_.resume(channel->client);
            break;
        case DoorFrameKind::close:
            channel->drop_replies();
            store_.resume(channel->client);
            store_.finish(channel->client);
            break;
        case DoorFrameKind::open: break;
    }
    return true;
}

bool DoorHost::open(std::uint32_t number) {
    if (number != last_channel_ + 1) return false;
    last_channel_ = number;
    const auto channel = std::make_shared<Channel>(*this, number);
    channel->client = store_.attach(channel);
    if (channel->client == StoreService::kNoConnection)
        put_door_frame(link_->text(), DoorFrameKind::close, number);
    else
        channels_.emplace(number, channel);
    return true;
}

void DoorHost::has_room() {
    for (const std::uint32_t number : std::exchange(waiting_, {})) {
        const auto found = channels_.find(number);
        if (found == channels_.end()) continue;
        found->second->stop_waiting();
        store_.resume(found->second->client);
    }
}

}  // namespace job
}  // namespace ddprun
