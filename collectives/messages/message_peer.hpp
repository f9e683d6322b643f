// MessagePeer: what a messenger has of one peer, and is to tell it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "collectives/messages/message_frames.hpp"
#include "collectives/messages/message_line.hpp"
#include "collectives/messages/message_operation.hpp"
#include "collectives/shm/message_layout.hpp"
#include "collectives/shm/others_word.hpp"
#include "collectives/wire/tcp_link.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace detail {

// kKeptOfPeer: how much a receiver keeps at most of one sender's messages. Each message has a cost: its bytes
// and kMessageCost.
inline constexpr std::uint64_t kKeptOfPeer = std::uint64_t{256} << 10;
inline constexpr std::uint64_t kMessageCost = 64;

struct MessagePeer {
    std::unique_ptr<MessageLine> line;
    bool local = false;
    bool left = false;
    std::optional<Deadline> lost;       // when it is taken for dead
    int broken = 0;                     // why its frames are no honest rank's: kLinkBroken, kLinkOverrun
    std::deque<MessageFrame> controls;  // what the peer is to be told, before all else
    // outboxes: first the sends in turn, which the others do not hold up; then the sends by tag.
    std::array<std::deque<MessageOperation*>, 2> outboxes;
    std::deque<std::uint32_t> streams;  // offers that the peer has accepted
    std::uint64_t sent_eagerly = 0;     // costs
    // came_eagerly: costs of the messages that came unasked. Minus `handed_on`: what is kept here, which the
    // peer counts, too.
    std::uint64_t came_eagerly = 0;
    std::uint64_t handed_on = 0;
    std::uint64_t handed_on_by_peer = 0;  // as far as it was looked at
    std::uint32_t offers_kept = 0;        // that no receive is for yet

    bool has_something_for_it() const {
        return !controls.empty() || !outboxes[0].empty() || !outboxes[1].empty() || !streams.empty();
    }
    // Returns whether the message is small, and the peer has room to keep it.
    bool takes_eagerly(std::size_t bytes) {
        const auto kept = [&] { return sent_eagerly + bytes + kMessageCost - handed_on_by_peer; };
        // Looking takes a flight between cores.
        if (kept() > kKeptOfPeer) handed_on_by_peer = line->handed_on_by_peer();
        if (handed_on_by_peer > sent_eagerly) throw LinkLost{-1, kLinkBroken};
        return bytes <= line->eager_limit() && kept() <= kKeptOfPeer;
    }
    // count_eager() and count_offer() count what came without being asked for, and throw LinkLost where that
    // is more than a peer may send.
    void count_eager(std::uint64_t bytes) {
        came_eagerly += bytes + kMessageCost;
        if (came_eagerly - handed_on > kKeptOfPeer) throw LinkLost{-1, kLinkOverrun};
    }
    void count_offer() {
        if (++offers_kept > kOfferIds) throw LinkLost{-1, kLinkOverrun};
    }
    bool put_eagerly(const MessageRequest& request) {
        const MessageFrame frame{FrameKind::eager, 0, 0, request.tag, request.bytes, 0, request.element};
        if (!line->put(frame, static_cast<const std::byte*>(request.in))) return false;
        sent_eagerly += request.bytes + kMessageCost;
        return true;
    }
    // Notes that a message of `bytes` that came eagerly was taken by its receive, or is for none.
    void note_handed_on(std::uint64_t bytes) {
        handed_on += bytes + kMessageCost;
        if (line) line->set_handed_on(handed_on);
    }
};

}  // namespace detail
}  // namespace ddprun
