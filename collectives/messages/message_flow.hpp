// MessageFlow: how messages move between a rank and its peers: lines, credit, offers, and the bytes of
// messages. Under the messenger's lock, but for is_ready().
//
// Small messages go at once where their receiver has room to keep them. All others are offered; when a
// receive has come, the receiver copies the bytes out of the sender's memory, or asks for them piece by
// piece. MessageMatcher decides which message is for which receive.
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
#include "collectives/shm/message_memory.hpp"
#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {

// MessengerPlace: where a messenger works. All is borrowed until its close(); a rank that is alone has
// nothing of it.
struct MessengerPlace {
    const Membership* membership = nullptr;
    std::byte* memory = nullptr;  // of the ranks of this host; null: they talk over TCP
    bool spins = false;
    // looks: how long a thread looks before it sleeps, since waking it takes 20 us and more on a virtual
    // machine.
    std::chrono::microseconds looks{50};
};

class MessageFlow {
  public:
    using Lock = std::unique_lock<std::mutex>;
    // Acceptance: what becomes of a receive that a message was found for.
    enum class Acceptance { comes, is_unfit, is_gone };

    MessageFlow(const MessengerPlace& place, MessageSurroundings& surroundings, MessageSleepers& sleepers,
                OpenMessages& open);

    int rank() const noexcept { return rank_; }
    int world_size() const noexcept { return static_cast<int>(peers_.size()); }
    MessagePeer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
    const MessagePeer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
    // lined(): the ranks with a line.
    std::span<const int> lined() const noexcept { return lined_; }
    // Returns the bell of a rank of this host.
    MessageBell& bell_of(int rank) const { return memory_->bell(places_[static_cast<std::size_t>(rank)]); }
    // Returns true if something has come from a rank of this host. Any thread.
    bool is_ready() const;

    bool needs_connections(int whom) const;
    // Makes lines to the ranks that have none.
    void connect();
    void disconnect();
    void add_descriptors(std::vector<pollfd>& descriptors) {
        for (const int one : lined_) peer(one).line->add_descriptors(descriptors);
    }

    // Sends to another rank.
    void send(MessageOperation& send);
    // Puts what has room. A line that breaks is lost.
    void flush(int to);
    void flush_all();
    bool has_unsent();
    // Notes that the line to a peer is lost. The peer is taken for dead unless news of it come within
    // kVerdictTimeout; a peer that sent what no rank sends is blamed at once.
    void lose(int whom, const LinkLost& how);
    bool has_lost() const noexcept { return any_lost_; }

    // Takes a frame that is about an offer, or its bytes. Returns a receive that waits for another message
    // again, or null. Throws LinkLost.
    MessageOperation* take(int from, const MessageFrame& frame, const std::byte* payload);
    // Gives the offer to the receive, and begins to move its bytes.
    Acceptance accept(MessageOperation& receive, const ArrivedMessage& message);
    // has_pulls(): there are bytes to copy. pull() copies the first message's, without the lock meanwhile,
    // and returns as take().
    bool has_pulls() const noexcept { return !pulls_.empty(); }
    MessageOperation* pull(Lock& lock);
    // Ends sends after their receivers have copied the bytes.
    void look_at_offers();

    // Takes a send to another rank that ends early out of all lists. True if its receiver has taken the
    // message before.
    bool withdraw_send(MessageOperation& send);
    void withdraw_receive(const MessageOperation& receive);
    bool has_moved(const MessageOperation& send) const {
        return send.offer != 0 && offers_[send.offer - 1].sent > 0;
    }
    // Ends copies and answers, since the communicator has ended.
    void end();

  private:
    struct Offer {
        MessageOperation* send = nullptr;  // null: free, or given up
        int peer = -1;
        std::uint32_t turn = 0;
        std::size_t sent = 0;
        bool accepted = false;  // its bytes were asked for
    };
    // Incoming: bytes that are coming in pieces for `receive`; null: they are thrown away.
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
