// MessageExchange: all that a messenger knows of the messages of one communicator: which is for which receive
// (MessageMatcher), how they move (MessageFlow), and what ends them before their time. MessageExchange has no
// threads, and never waits.
//
// All but is_ready(), hear_news() and set_timeout() is called under the messenger's lock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "collectives/messages/message_flow.hpp"
#include "collectives/messages/message_matcher.hpp"
#include "collectives/messages/message_operation.hpp"
#include "collectives/messages/open_messages.hpp"

namespace ddprun {
inline namespace detail {

class MessageExchange {
  public:
    using Lock = std::unique_lock<std::mutex>;

    MessageExchange(const MessengerPlace& place, std::chrono::milliseconds operation_timeout,
                    MessageSurroundings& surroundings, MessageSleepers& sleepers);

    MessageFlow& flow() noexcept { return flow_; }
    OpenMessages& open() noexcept { return open_; }

    void begin(MessageOperation& operation);
    // Returns true while nothing is known that ends operations, or refuses them.
    bool is_undisturbed() const {
        return !refuses_all_ && !verdict_ && !any_left_ && !flow_.has_lost() && !has_news();
    }
    // Returns true if no operation is open, and no message by tag kept.
    bool is_empty() const { return open_.is_empty() && matchers_[true].kept() == 0; }
    // Takes all that has come from the peer.
    void drain(int from);
    // Reads what has come, and puts what has room. Lets go of the lock while bytes are copied.
    void progress(Lock& lock);
    // Does progress() where a rank has left or is lost.
    void look_for_ends(Lock& lock) {
        if (any_left_ || flow_.has_lost()) progress(lock);
    }
    // Ends operations that have run out of time.
    void expire();

    // Returns true if there is something for progress(). Any thread.
    bool is_ready() const { return has_news() || flow_.is_ready(); }
    // Notes that there is news for progress(). Any thread.
    void hear_news() { news_.fetch_add(1, std::memory_order_seq_cst); }

    void give_up(MessageOperation& operation, const std::string& why);
    // Ends `operations`, those of one operation in turn, unless a byte of any has moved: false then.
    bool give_up_all(std::span<MessageOperation* const> operations);
    // Refuses every operation from now on, and ends open receives at once.
    void refuse_all();
    // Returns true while something has to get out before the rank may leave.
    bool has_unsent();
    bool has_ended() const noexcept { return verdict_.has_value(); }
    // Ends all operations that are left, by the verdict if there is one.
    void end();

  private:
    bool has_news() const {
        return news_.load(std::memory_order_seq_cst) != news_seen_.load(std::memory_order_relaxed);
    }
    void send_to_self(MessageOperation& send);
    void hand_over(MessageOperation& receive, const ArrivedMessage& message);
    void accept(MessageOperation& receive, const ArrivedMessage& message);
    void fill(MessageOperation& receive, const ArrivedMessage& message, const std::byte* data);
    // Looks for another message for the receive.
    void repost(MessageOperation& receive);
    void take(int from, const MessageFrame& frame, const std::byte* payload);
    void take_message(int from, const MessageFrame& frame, const std::byte* payload);

    // Takes an operation that ends early out of all lists. True if its receiver has taken the message before.
    bool withdraw(MessageOperation& operation);
    void look_at_news();
    bool is_over(int whom) const;
    bool needs(const MessageOperation& operation, int left) const;
    void look_for_left();
    void look_for_lost();
    void declare(const Verdict& verdict);
    void fail_by_verdict(MessageOperation& operation) {
        open_.fail_with(operation, verdict_->code, verdict_->text, verdict_->culprits);
    }
    void fail_all();

    MessageSurroundings& surroundings_;
    MessageSleepers& sleepers_;
    OpenMessages open_;
    MessageFlow flow_;
    std::array<MessageMatcher<MessageOperation>, 2> matchers_;  // of operations in turn, and by tag
    std::map<std::uint32_t, MessageOperation*>
        own_offers_;  // sends to this rank itself that wait for a receive
    std::uint32_t own_turns_ = 0;
    std::atomic<std::uint32_t> news_{0};
    std::atomic<std::uint32_t> news_seen_{0};
    std::optional<Verdict> verdict_;
    bool any_left_ = false;
    bool refuses_all_ = false;
};

}  // namespace detail
}  // namespace ddprun
