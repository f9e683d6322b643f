// MessageFlow: how messages move between a rank and its peers: lines, credit, offers, and the bytes of both.
// Under the messenger's lock, but for is_ready().
//
// Small messages go at once where their receiver has room to keep them. All others are offered; when a
// receive has come, the receiver copies the bytes out of the sender's memory, or asks for them piece by
// piece. Which message is for which receive is decided elsewhere.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/messages/message_peer.hpp"
#include "collectives/messages/message_surroundings.hpp"
#include "collectives/messages/open_messages.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

// Where a messenger works. All borrowed until its close(); nothing of it for a rank that is alone.
struct MessengerPlace {
    const Membership* membership = nullptr;
    std::byte* memory = nullptr;  // of the ranks of this host; null: they talk over TCP
    bool spins = false;
    // What a thread looks before it sleeps: waking it takes 20 us and more on a virtual machine.
    std::chrono::microseconds looks{50};
};

class MessageFlow {
  public:
    using Lock = std::unique_lock<std::mutex>;
    // What becomes of a receive that a message was found for.
    enum class Acceptance { comes, is_unfit, is_gone };

    MessageFlow(const MessengerPlace& place, MessageSurroundings& surroundings, MessageSleepers& sleepers,
                OpenMessages& open);

    int rank() const noexcept { return rank_; }
    int world_size() const noexcept { return static_cast<int>(peers_.size()); }
    MessagePeer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
    const MessagePeer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
    // Those with a line.
    std::span<const int> lined() const noexcept { return lined_; }
    // The bell of a rank of this host.
    MessageBell& bell_of(int rank) const { return memory_->bell(places_[static_cast<std::size_t>(rank)]); }
    // Something has come from a rank of this host. Any thread.
    bool is_ready() const;

    bool needs_connections(int whom) const;
    // Makes lines to those that have none.
    void connect();
    void disconnect();
    // What poll() is to wait for.
    void add_descriptors(std::vector<pollfd>& descriptors) {
        for (const int one : lined_) peer(one).line->add_descriptors(descriptors);
    }

    // To another rank.
    void send(MessageOperation& send);
    // Puts what has room. A line that breaks is lost.
    void flush(int to);
    void flush_all();
    bool has_unsent();
    // The peer is taken for dead if nothing is heard of it.
    void lose(int whom, const LinkLost& how);
    bool has_lost() const noexcept { return any_lost_; }

    // A frame that is about an offer, or its bytes. Returns a receive that waits for another message again.
    // Throws LinkLost.
    MessageOperation* take(int from, const MessageFrame& frame, const std::byte* payload);
    // The offer is for the receive.
    Acceptance accept(MessageOperation& receive, const ArrivedMessage& message);
    // Copies what is to be copied first, without the lock meanwhile. Returns as take().
    bool has_pulls() const noexcept { return !pulls_.empty(); }
    MessageOperation* pull(Lock& lock);
    // Ends the sends whose bytes were copied.
    void look_at_offers();

    // Ends a send to another rank before its time: it is in nothing any more. True if its receiver has taken
    // it before.
    bool withdraw_send(MessageOperation& send);
    void withdraw_receive(const MessageOperation& receive);
    // A byte of the send has moved.
    bool has_moved(const MessageOperation& send) const {
        return send.offer != 0 && offers_[send.offer - 1].sent > 0;
    }
    // The communicator has ended: nothing is copied or told any more.
    void end();

  private:
    struct Offer {
        MessageOperation* send = nullptr;  // null: free, or given up
        int peer = -1;
        std::uint32_t turn = 0;
        std::size_t sent = 0;
        bool accepted = false;  // its bytes were asked for
    };
    // Bytes that are coming in pieces; null: they are thrown away.
    struct Incoming {
        MessageOperation* receive = nullptr;
        std::uint64_t bytes = 0;
        std::uint64_t came = 0;
    };
    struct Pull {
        MessageOperation* receive;
        ArrivedMessage message;
    };

    bool put_message(int to, MessageOperation& send);
    bool put_pieces(int to);
    std::optional<std::uint32_t> free_offer(const MessageRequest& request);
    std::atomic<std::uint64_t>& word_of(const ArrivedMessage& message) const {
        return memory_->offer(places_[static_cast<std::size_t>(message.source)], message.id);
    }
    void end_offer(std::uint32_t id);
    void release_offer(std::uint32_t id);
    void ask_for_pieces(MessageOperation& receive, const ArrivedMessage& message);
    MessageOperation* take_retract(int from, const MessageFrame& frame);
    void take_piece(int from, const MessageFrame& frame, const std::byte* payload);
    void take_answer(int from, const MessageFrame& frame);

    MessageSurroundings& surroundings_;
    MessageSleepers& sleepers_;
    OpenMessages& open_;
    int rank_ = 0;
    std::optional<MessageMemory> memory_;
    std::vector<int> places_;  // of ranks in the memory
    std::vector<MessagePeer> peers_;
    std::vector<int> lined_;
    std::vector<const MessageLine*> local_lines_;
    std::atomic<std::uint32_t> taken_seen_{0};
    std::vector<Offer> offers_;
    std::vector<std::uint32_t> free_offers_;
    std::uint32_t turns_ = 0;
    std::map<std::pair<int, std::uint32_t>, Incoming> incoming_;
    std::deque<Pull> pulls_;
    bool single_copy_ = true;  // until the system refuses; not between containers
    bool any_lost_ = false;
    bool has_ended_ = false;
};

}  // namespace detail
}  // namespace ddprun
