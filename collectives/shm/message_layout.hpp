// MessageLayout: where messages by tag lie in the memory that the ranks of a host share. Pure.
//
// Between each ordered pair of ranks there is a ring of cells, one for each frame, and a ring of bytes for
// payloads that do not fit into a cell. Cells of the same number lie side by side for all senders, so that a
// receiver that looks at the first cell of each touches few pages. Memory that no message has used is never
// touched, so it costs nothing.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "collectives/shm/others_word.hpp"

namespace ddprun {
inline namespace detail {

inline constexpr std::size_t kMessageLine = 64;
inline constexpr std::size_t kMessageInline = 32;
// kMessageOffers: how many messages one rank may have offered that are not taken; further ones wait in its
// own memory.
inline constexpr std::uint32_t kMessageOffers = 2048;
// kOffersInTurn: offers besides, for operations in turn, which messages by tag must not hold up.
inline constexpr std::uint32_t kOffersInTurn = 64;
// kOfferIds: the numbers of a rank's offers are below it.
inline constexpr std::uint32_t kOfferIds = kMessageOffers + kOffersInTurn;
inline constexpr std::size_t kLargestMessageRing = std::size_t{128} << 10;
// kRingUnit: rings begin and end at multiples of it, whatever the size of a page.
inline constexpr std::size_t kRingUnit = 4096;
// kMessageRings: bytes of all rings together.
inline constexpr std::size_t kMessageRings = std::size_t{64} << 20;

// MessageCell: a frame on its way. `stamp` is the lap of the ring, from 1 on, above the frame's kind. The
// store of `stamp` releases the cell and its bytes to the load in take(); the stores of MessageCounters
// release both to the next put(). Stores that a sleeper may miss are sequentially consistent, see
// ring_bell().
struct alignas(kMessageLine) MessageCell {
    std::atomic<std::uint64_t> stamp;
    OthersWord<std::uint32_t> id;
    OthersWord<std::uint32_t> turn;
    OthersWord<std::uint64_t> tag;
    OthersWord<std::uint64_t> bytes;
    std::array<std::byte, kMessageInline> payload;
};
static_assert(sizeof(MessageCell) == kMessageLine);

// MessageCounters: what the receiver of a pair tells its sender: cells and bytes of the ring that may be used
// again, and how much it has handed on.
struct alignas(2 * kMessageLine) MessageCounters {
    std::atomic<std::uint64_t> cells;
    std::atomic<std::uint64_t> bytes;
    std::atomic<std::uint64_t> handed_on;
};

// MessageBell: a waiting rank sleeps on `count`; a rank or thread that has something for it counts up.
struct alignas(2 * kMessageLine) MessageBell {
    std::atomic<std::uint32_t> count;
    std::atomic<std::uint32_t> sleepers;
    std::atomic<std::uint32_t> taken;  // counted up for each of the rank's offers that has been taken
    std::atomic<std::int32_t> pid;     // 0 before the rank has come
    std::atomic<std::uint32_t> cpu;    // see leave_cpu_of()
};

// MessageOffer: what has become of an offer: its turn above an OfferState. The receiver's exchange of the
// word to `taken` releases the message's memory to the sender, which acquires it by `taken` of its bell, or
// by its own exchange to `retracted`.
struct alignas(kMessageLine) MessageOffer {
    std::atomic<std::uint64_t> word;
};

class MessageLayout {
  public:
    explicit constexpr MessageLayout(int ranks)
        : ranks_(static_cast<std::size_t>(ranks)),
          cells_(ranks <= 16 ? 64 : 16),
          ring_(std::clamp(kMessageRings / (ranks_ * ranks_) / kRingUnit * kRingUnit, std::size_t{1024},
                           kLargestMessageRing)) {}

    constexpr std::size_t cells() const noexcept { return cells_; }
    constexpr std::uint64_t lap_of(std::uint64_t number) const noexcept {
        return number >> std::countr_zero(cells_);
    }
    constexpr std::size_t ring_size() const noexcept { return ring_; }
    constexpr std::size_t size() const noexcept { return rings() + ranks_ * ranks_ * ring_; }

    constexpr std::size_t bell(int rank) const noexcept { return at(rank) * sizeof(MessageBell); }
    constexpr std::size_t counters(int receiver, int sender) const noexcept {
        return ranks_ * sizeof(MessageBell) + pair(receiver, sender) * sizeof(MessageCounters);
    }
    constexpr std::size_t offer(int sender, std::uint32_t id) const noexcept {
        return offers() + (at(sender) * kOfferIds + id) * sizeof(MessageOffer);
    }
    constexpr std::size_t cell(int receiver, int sender, std::size_t number) const noexcept {
        return first_cell() + ((at(receiver) * cells_ + number) * ranks_ + at(sender)) * sizeof(MessageCell);
    }
    constexpr std::size_t ring(int receiver, int sender) const noexcept {
        return rings() + pair(receiver, sender) * ring_;
    }

  private:
    static constexpr std::size_t at(int rank) noexcept { return static_cast<std::size_t>(rank); }
    constexpr std::size_t pair(int receiver, int sender) const noexcept {
        return at(receiver) * ranks_ + at(sender);
    }
    constexpr std::size_t offers() const noexcept {
        return ranks_ * sizeof(MessageBell) + ranks_ * ranks_ * sizeof(MessageCounters);
    }
    constexpr std::size_t first_cell() const noexcept {
        return offers() + ranks_ * kOfferIds * sizeof(MessageOffer);
    }
    constexpr std::size_t rings() const noexcept {
        const std::size_t end = first_cell() + ranks_ * ranks_ * cells_ * sizeof(MessageCell);
        return (end + kRingUnit - 1) / kRingUnit * kRingUnit;
    }

    std::size_t ranks_;
    std::size_t cells_;  // a power of two
    std::size_t ring_;
};

}  // namespace detail
}  // namespace ddprun
