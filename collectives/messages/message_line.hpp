// MessageLine: frames to and from one peer. Under the messenger's lock, but for is_ready().
//
// Frames come in the order in which they were put. A line never waits: a frame without room is refused, and
// is put again later.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "collectives/liveness/lifeline.hpp"
#include "collectives/shm/message_layout.hpp"
#include "collectives/wire/event.hpp"
#include "collectives/wire/membership.hpp"
#include "collectives/wire/redial.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun {
inline namespace detail {

// FrameKind: what a frame says. The values travel between ranks.
enum class FrameKind : std::uint8_t {
    none = 0,
    eager = 1,    // a message with all its bytes
    offer = 2,    // a message; its receiver asks for the bytes, or fetches them from `place` by itself
    accept = 3,   // the receiver asks for the bytes of an offer
    drop = 4,     // the receiver wants nothing of an offer: for its sender it has ended
    piece = 5,    // some of the bytes that were asked for, from the first on
    retract = 6,  // the sender has given up an offer
    credit = 7    // the receiver has handed on so much of what came unasked (in `tag`)
};

struct MessageFrame {
    FrameKind kind = FrameKind::none;
    std::uint32_t id = 0;    // of an offer, unique among those of its sender that have not ended
    std::uint32_t turn = 0;  // counted up for each use of the id
    std::uint64_t tag = 0;
    std::uint64_t bytes = 0;  // of eager and piece those behind the frame, of offer the message's
    std::uint64_t place = 0;
    std::uint8_t element = 0;  // of a message in turn: 1 + its DataType; 0: by tag
};

// Appends the frame as it travels over a connection, with its payload behind it.
void put_frame(std::vector<std::byte>& out, const MessageFrame& frame, const std::byte* payload);

// MessageFrames takes apart what comes over a connection, however it was cut. Pure.
class MessageFrames {
  public:
    explicit MessageFrames(int peer) : peer_(peer) {}

    // Returns the room for what comes next; add() says how much came. There is room behind a next() that was
    // false.
    std::span<std::byte> room();
    void add(std::size_t count) { end_ += count; }
    // Reads the next frame; false: it is not whole yet. The payload stays until release(). Throws LinkLost
    // for bytes that are no frame.
    bool next(MessageFrame& frame, const std::byte*& payload);
    void release() { begin_ += size_; }

  private:
    int peer_;
    std::vector<std::byte> bytes_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
    std::size_t size_ = 0;  // of the one that was taken last
};

class MessageLine {
  public:
    virtual ~MessageLine() = default;

    // Puts a frame with `payload` behind it (frame.bytes for eager and piece), all or nothing: false if there
    // is no room. Throws LinkLost.
    virtual bool put(const MessageFrame& frame, const std::byte* payload) = 0;
    // Takes the next frame that has come; false: none. The payload stays until release(). Throws LinkLost.
    virtual bool take(MessageFrame& frame, const std::byte*& payload) = 0;
    virtual void release() = 0;
    // Returns whether a look at take() is worth it; any thread.
    virtual bool is_ready() const noexcept = 0;
    // Returns true if nothing more can come from the peer, which has left.
    virtual bool is_exhausted() = 0;

    // eager_limit() and piece_limit(): bytes of the largest eager message, and of the largest piece.
    virtual std::size_t eager_limit() const noexcept = 0;
    virtual std::size_t piece_limit() const noexcept = 0;

    // set_handed_on() and handed_on_by_peer(): how much that came unasked this rank has handed on, and how
    // much the peer has.
    virtual void set_handed_on(std::uint64_t amount) = 0;
    virtual std::uint64_t handed_on_by_peer() = 0;

    // Sends what the line holds. False while there is some left.
    virtual bool flush() { return true; }
    // Adds what poll() is to wait for; nothing for memory.
    virtual void add_descriptors(std::vector<pollfd>&) {}
};

// OfferState: how far an offer in shared memory is. The sender offers and retracts; the receiver claims, and
// ends the offer.
enum class OfferState : std::uint8_t { none = 0, offered = 1, claimed = 2, taken = 3, retracted = 4 };
constexpr std::uint64_t offer_word(std::uint32_t turn, OfferState state) {
    return std::uint64_t{turn} << 8 | static_cast<std::uint64_t>(state);
}

// MessageMemory: the memory that ranks of one host share for messages, as this rank sees it; ranks are places
// on the host.
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

// Wakes the rank of the bell, if it sleeps. Called after what it is to see has been written.
void ring_bell(MessageBell& bell);

class ShmMessageLine final : public MessageLine {
  public:
    // ShmMessageLine is between this rank and the one in place `peer`. The memory is borrowed.
    ShmMessageLine(const MessageMemory& memory, int peer);

    bool put(const MessageFrame& frame, const std::byte* payload) override;
    bool take(MessageFrame& frame, const std::byte*& payload) override;
    void release() override;
    bool is_ready() const noexcept override;
    bool is_exhausted() override { return !is_ready(); }
    std::size_t eager_limit() const noexcept override { return eager_limit_; }
    std::size_t piece_limit() const noexcept override { return memory_.layout().ring_size() / 4; }
    void set_handed_on(std::uint64_t amount) override {
        in_.handed_on.store(amount, std::memory_order_release);
    }
    std::uint64_t handed_on_by_peer() override { return out_.handed_on.load(std::memory_order_acquire); }

  private:
    std::uint64_t stamp_of(std::uint64_t number) const { return memory_.layout().lap_of(number) + 1; }
    // Returns where `bytes` that come after `position` bytes of the ring begin: not across its end.
    std::uint64_t place_of(std::uint64_t position, std::size_t bytes) const;

    const MessageMemory& memory_;
    int peer_;
    MessageCounters& out_;
    MessageCounters& in_;
    std::byte* out_ring_;
    const std::byte* in_ring_;
    std::size_t eager_limit_;
    std::uint64_t put_cells_ = 0;
    std::uint64_t put_bytes_ = 0;
    std::uint64_t free_cells_ = 0;  // what the peer is known to have released
    std::uint64_t free_bytes_ = 0;
    std::atomic<std::uint64_t> taken_cells_{0};
    std::uint64_t taken_bytes_ = 0;
    std::uint64_t taken_end_ = 0;  // of the payload that was taken last
};

// TcpMessageLine: one connection for each direction, dialled by the rank that sends when it first does.
class TcpMessageLine final : public MessageLine {
  public:
    TcpMessageLine(const Membership& membership, Lifeline& lifeline, int peer);

    bool put(const MessageFrame& frame, const std::byte* payload) override;
    bool take(MessageFrame& frame, const std::byte*& payload) override;
    void release() override { frames_.release(); }
    bool is_ready() const noexcept override { return true; }
    bool is_exhausted() override;
    std::size_t eager_limit() const noexcept override;
    std::size_t piece_limit() const noexcept override;
    void set_handed_on(std::uint64_t amount) override { handed_on_ = amount; }
    std::uint64_t handed_on_by_peer() override { return handed_on_by_peer_; }
    bool flush() override;
    void add_descriptors(std::vector<pollfd>& descriptors) override;

  private:
    // Goes on with dialling; true once connected, else called again later.
    bool dial();
    bool read_more();

    const Membership& membership_;
    Lifeline& lifeline_;
    int peer_;
    Dial dial_;
    ProcessDescriptor timer_;  // for what dial_ waits until
    Deadline timed_ = Deadline::max();
    std::optional<TcpLink> in_;
    bool in_over_ = false;
    std::vector<std::byte> write_;
    std::size_t write_begin_ = 0;
    MessageFrames frames_;
    std::uint64_t handed_on_ = 0;
    std::uint64_t told_ = 0;
    std::uint64_t handed_on_by_peer_ = 0;
};

}  // namespace detail
}  // namespace ddprun
