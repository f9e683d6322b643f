// MessageExchange: what a messenger knows of the messages by tag of one communicator, and moves of them. The messenger's
// callers and threads (messenger.hpp) carry it out, under its lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/call/backend.hpp"
#include "collectives/call/call.hpp"
#include "collectives/messages/message_line.hpp"
#include "collectives/messages/message_matcher.hpp"
#include "collectives/messages/message_operation.hpp"
#include "collectives/wire/event.hpp"
#include "rendezvous/system/deadline.hpp"

namespace ddprun::inline detail {

// A sleep that nobody ends; it matters only where a peer is killed between its message and its ring of the bell. Deadlines that
// are later need wake nobody.
inline constexpr std::chrono::milliseconds kLongestMessageSleep{500};
// What a receiver keeps of one sender's, each message counted with kMessageCost besides.
inline constexpr std::uint64_t kKeptOfPeer = std::uint64_t{256} << 10;
inline constexpr std::uint64_t kMessageCost = 64;

// Where a messenger works. All borrowed until its close(); nothing of it for a rank that is alone.
struct MessengerPlace {
    const Membership* membership = nullptr;
    Lifeline* lifeline = nullptr;
    std::byte* memory = nullptr;  // of the ranks of this host; null: they talk over TCP
    bool spins = false;
};

class MessageExchange {
  protected:
    using Lock = std::unique_lock<std::mutex>;

    struct Peer {
        std::unique_ptr<MessageLine> line;
        bool local = false;
        bool left = false;
        std::optional<Deadline> lost;       // when it is taken for dead
        int broken = 0;                     // why it is taken for no honest rank: see kLinkBroken
        std::deque<MessageFrame> controls;  // what the peer is to be told, before all else
        std::array<std::deque<MessageOperation*>, 2>
            outboxes;                       // those in turn, which the others do not hold up; those by tag
        std::deque<std::uint32_t> streams;  // offers that the peer has accepted
        std::uint64_t sent_eagerly = 0;     // costs
        std::uint64_t came_eagerly =
            0;  // costs; how far it is ahead of the next is counted here as well as by the peer
        std::uint64_t handed_on = 0;
        std::uint64_t handed_on_by_peer = 0;  // as far as it was looked at
        std::uint32_t offers_kept = 0;        // that no receive is for yet

        // Whether the message is small, and the peer has room to keep it.
        bool takes_eagerly(std::size_t bytes) {
            const auto kept = [&] { return sent_eagerly + bytes + kMessageCost - handed_on_by_peer; };
            // Looking takes a flight between cores.
            if (kept() > kKeptOfPeer) handed_on_by_peer = line->handed_on_by_peer();
            if (handed_on_by_peer > sent_eagerly) throw LinkLost{-1, kLinkBroken};
            return bytes <= line->eager_limit() && kept() <= kKeptOfPeer;
        }
        // Both count what came without being asked for, and throw LinkLost where it is more than a peer may send so.
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
    };
    struct Offer {
        MessageOperation* work = nullptr;  // null: free, or given up
        int peer = -1;
        std::uint32_t turn = 0;
        std::size_t sent = 0;
        bool accepted = false;  // its bytes were asked for
    };
    // Bytes that are coming in pieces; null: they are thrown away.
    struct Incoming {
        MessageOperation* work = nullptr;
        std::uint64_t tag = 0;
        std::uint64_t bytes = 0;
        std::uint64_t came = 0;
    };
    struct Pull {
        MessageOperation* work;
        ArrivedMessage message;
    };
    MessageExchange(const MessengerPlace& place, std::chrono::milliseconds operation_timeout);
    virtual ~MessageExchange() = default;

    // Has lines to ranks of other hosts from then on.
    virtual void need_connections() = 0;
    // Wakes this rank's threads that sleep on the bell or on connections.
    void wake(bool also_helper = false);

    int rank() const { return place_.membership == nullptr ? 0 : place_.membership->rank; }
    int world_size() const { return static_cast<int>(peers_.size()); }
    Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
    int memory_place(int whom) const { return places_[static_cast<std::size_t>(whom)]; }

    void begin(MessageOperation& work);
    void send_to_self(MessageOperation& work);
    // The message is for the receive.
    void hand_over(MessageOperation& receive, ArrivedMessage message);
    void fill(MessageOperation& receive, const ArrivedMessage& message, const std::byte* data);
    void end(MessageOperation& work, std::optional<CollectiveError> error = std::nullopt);
    void fail_with(MessageOperation& work, CollectiveErrorCode code, const std::string& what,
                   std::vector<int> culprits);

    void progress(Lock& lock);
    void look_at_news();
    void drain(int from);
    void take(int from, const MessageFrame& frame, const std::byte* payload);
    void take_piece(int from, const MessageFrame& frame, const std::byte* payload);
    void flush(int to);
    bool put_message(int to, MessageOperation& work);
    bool put_pieces(int to);
    void look_at_offers();
    void end_offer(std::uint32_t id);
    void release_offer(std::uint32_t id);
    void pull(Lock& lock);
    void note_handed_on(int from, std::uint64_t bytes);
    void accept(MessageOperation& receive, const ArrivedMessage& message);
    void ask_for_pieces(MessageOperation& receive, const ArrivedMessage& message);
    void repost(MessageOperation& receive);

    // Ends the operation before its time: it is in nothing any more. True if its receiver has taken it before.
    bool withdraw(MessageOperation& work);
    bool needs(const MessageOperation& work, int left) const;
    void look_for_left();
    void look_for_lost();
    void lose(int whom, const LinkLost& how);
    void declare(const Verdict& verdict);
    void fail_all();
    void expire();

    std::chrono::milliseconds timeout_of(const MessageOperation& work) const {
        const auto timeout = work.request.timeout;
        return timeout.count() < 0 ? operation_timeout_.load()
                                   : std::min<std::chrono::milliseconds>(timeout, kLongestTimeout);
    }
    void set_deadline(MessageOperation& work);
    bool is_ready() const;
    // Something that has to get out before the rank may leave.
    bool has_unsent();

    const MessengerPlace place_;
    std::atomic<std::chrono::milliseconds> operation_timeout_;
    std::optional<MessageMemory> memory_;
    std::vector<int> places_;  // of ranks in the memory
    MessageBell own_bell_{};
    MessageBell* bell_ = &own_bell_;
    std::atomic<std::uint32_t> news_{0};
    std::atomic<std::uint32_t> news_seen_{0};
    std::atomic<std::uint32_t> taken_seen_{0};
    std::atomic<int> started_open_{0};
    std::atomic<bool> closed_{false};
    std::atomic<bool> armed_{false};      // the thread for what was started counts among the bell's sleepers
    std::atomic<bool> connected_{false};  // lines to other hosts are in use

    std::mutex mutex_;  // guards what follows
    std::condition_variable threads_wake_;
    std::vector<Peer> peers_;
    std::vector<int> lined_;  // peers with a line
    std::vector<const MessageLine*> local_lines_;
    std::array<MessageMatcher<MessageOperation>, 2> matchers_;  // as outboxes
    MessageOperation* open_ = nullptr;
    std::uint64_t numbers_ = 0;
    Deadline next_deadline_ = Deadline::max();
    std::vector<Offer> offers_;
    std::vector<std::uint32_t> free_offers_;
    std::uint32_t turns_ = 0;
    std::map<std::pair<int, std::uint32_t>, Incoming> incoming_;
    std::deque<Pull> pulls_;
    std::map<std::uint32_t, MessageOperation*>
        own_offers_;           // sends to this rank itself that wait for a receive
    bool single_copy_ = true;  // until the system refuses; not between containers
    bool any_left_ = false;
    bool any_lost_ = false;
    bool closing_ = false;
    std::atomic<bool> unsent_{false};  // some connection has no room for all there is
    bool polling_ = false;             // a thread sleeps on the connections, and nobody has woken it
    std::optional<Verdict> verdict_;
    std::optional<Event> connections_wake_;
};

}  // namespace ddprun::inline detail
