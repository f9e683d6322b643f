#include "rendezvous/door/door_host.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ddprun {
inline namespace job {
namespace {

namespace asio = boost::asio;

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
