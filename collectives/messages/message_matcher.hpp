// MessageMatcher: which message is for which receive. Pure.
//
// A receive takes the earliest message of its tag from its rank, or from any; a message goes to the earliest
// receive that may take it. Messages that fit no receive yet are kept in the order of their coming. Not for
// several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun {
inline namespace detail {

inline constexpr int kAnyRank = -1;

// ArrivedMessage: a message that has come before its receive: with its bytes, or as an offer of them.
struct ArrivedMessage {
    int source = 0;
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;
    bool offered = false;
    // id, turn and place: as in the MessageFrame of an offer; 0 where there is no offer.
    std::uint32_t id = 0;
    std::uint32_t turn = 0;
    std::uint64_t place = 0;
    std::uint8_t element = 0;  // see MessageFrame
    // kept: the bytes, where there is no offer; null for no bytes.
    std::unique_ptr<std::byte[]> kept = nullptr;
};

// MessageMatcher knows receives as the caller's type `Receive`, with peer(), tag(), and number(), the order
// in which they were made. Receives are borrowed while posted.
template <class Receive>
class MessageMatcher {
  public:
    // Posts the receive, unless a message that has come is for it: then returns the message.
    std::optional<ArrivedMessage> post(Receive& receive) {
        Queue& queue = *find(receive.tag(), true);
        for (auto one = queue.arrived.begin(); one != queue.arrived.end(); ++one) {
            if (receive.peer() != kAnyRank && receive.peer() != one->source) continue;
            ArrivedMessage found = std::move(*one);
            queue.arrived.erase(one);
            --arrived_;
            forget_if_empty(receive.tag(), queue);
            return found;
        }
        // place: behind the receives made before, since this one may have had a message already which came to
        // nothing.
        auto place = queue.posted.end();
        while (place != queue.posted.begin() && (*std::prev(place))->number() > receive.number()) --place;
        // Takes a list's node that was used before, where there is one.
        if (spare_.empty()) spare_.push_back(nullptr);
        spare_.front() = &receive;
        queue.posted.splice(place, spare_, spare_.begin());
        return std::nullopt;
    }

    // Returns the receive that a message is for, which is posted no more; null: keep() it.
    Receive* match(int source, std::uint64_t tag) {
        Queue* const queue = find(tag);
        if (queue == nullptr) return nullptr;
        auto& posted = queue->posted;
        for (auto one = posted.begin(); one != posted.end(); ++one) {
            if ((*one)->peer() != kAnyRank && (*one)->peer() != source) continue;
            Receive* receive = *one;
            if (spare_.empty()) {
                spare_.splice(spare_.begin(), posted, one);
            } else {
                posted.erase(one);
            }
            forget_if_empty(tag, *queue);
            return receive;
        }
        return nullptr;
    }

    void keep(ArrivedMessage message) {
        ++arrived_;
        queues_[message.tag].arrived.push_back(std::move(message));
    }

    // Withdraws the receive; false if it was not posted.
    bool withdraw(Receive& receive) {
        Queue* const queue = find(receive.tag());
        if (queue == nullptr) return false;
        // posted is looked through from its end, since the receives made last are withdrawn first.
        auto& posted = queue->posted;
        const auto last = std::find(posted.rbegin(), posted.rend(), &receive);
        if (last == posted.rend()) return false;
        posted.erase(std::prev(last.base()));
        forget_if_empty(receive.tag(), *queue);
        return true;
    }

    // Takes back an offer that its sender has given up. Returns how many were kept: one, or none; of a sender
    // that makes no sense maybe more.
    std::size_t take_back(int source, std::uint64_t tag, std::uint32_t id, std::uint32_t turn) {
        Queue* const queue = find(tag);
        if (queue == nullptr) return 0;
        const std::size_t gone = queue->arrived.remove_if([&](const ArrivedMessage& one) {
            return one.offered && one.source == source && one.id == id && one.turn == turn;
        });
        arrived_ -= gone;
        if (gone > 0) forget_if_empty(tag, *queue);
        return gone;
    }

    std::size_t kept() const noexcept { return arrived_; }

  private:
    // kRemembered: of up to so many tags, one that is used again and again costs nothing to look up; more
    // tags are forgotten between uses.
    static constexpr std::size_t kRemembered = 64;

    struct Queue {
        std::list<Receive*> posted;
        std::list<ArrivedMessage> arrived;
    };

    // Returns the tag's queue; null if nothing has or had this tag, unless `make`. The last one is
    // remembered, as it is often asked for again.
    Queue* find(std::uint64_t tag, bool make = false) {
        if (last_ != nullptr && last_->first == tag) return &last_->second;
        const auto found = make ? queues_.try_emplace(tag).first : queues_.find(tag);
        if (found == queues_.end()) return nullptr;
        last_ = &*found;
        return &last_->second;
    }
    void forget_if_empty(std::uint64_t tag, const Queue& queue) {
        if (queues_.size() <= kRemembered || !queue.posted.empty() || !queue.arrived.empty()) return;
        queues_.erase(tag);
        last_ = nullptr;
    }

    std::unordered_map<std::uint64_t, Queue> queues_;
    std::pair<const std::uint64_t, Queue>* last_ = nullptr;
    std::list<Receive*> spare_;  // one at most, of what was posted
    std::size_t arrived_ = 0;
};

}  // namespace detail
}  // namespace ddprun
