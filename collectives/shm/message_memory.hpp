// MessageMemory: the memory that ranks of one host share for messages, as this rank sees it; ranks are places
// on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/shm/message_layout.hpp"

namespace ddprun {
inline namespace detail {

// OfferState: how far an offer in shared memory is. The sender offers and retracts; the receiver claims, and
// ends the offer.
enum class OfferState : std::uint8_t { none = 0, offered = 1, claimed = 2, taken = 3, retracted = 4 };
constexpr std::uint64_t offer_word(std::uint32_t turn, OfferState state) {
    return std::uint64_t{turn} << 8 | static_cast<std::uint64_t>(state);
}

class MessageMemory {
  public:
    MessageMemory(std::byte* base, int ranks, int rank)
        : base_(base), layout_(ranks), ranks_(ranks), rank_(rank) {}

    int rank() const noexcept { return rank_; }
    int ranks() const noexcept { return ranks_; }
    const MessageLayout& layout() const noexcept { return layout_; }
    MessageBell& bell(int rank) const { return at<MessageBell>(layout_.bell(rank)); }
    MessageCounters& counters(int receiver, int sender) const {
        return at<MessageCounters>(layout_.counters(receiver, sender));
    }
    std::atomic<std::uint64_t>& offer(int sender, std::uint32_t id) const {
        return at<MessageOffer>(layout_.offer(sender, id)).word;
    }
    MessageCell& cell(int receiver, int sender, std::uint64_t number) const {
        return at<MessageCell>(layout_.cell(receiver, sender, number & (layout_.cells() - 1)));
    }
    std::byte* ring(int receiver, int sender) const { return base_ + layout_.ring(receiver, sender); }

  private:
    template <class T>
    T& at(std::size_t offset) const {
        return *reinterpret_cast<T*>(base_ + offset);
    }

    std::byte* base_;
    MessageLayout layout_;
    int ranks_;
    int rank_;
};

}  // namespace detail
}  // namespace ddprun
