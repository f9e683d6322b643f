// MessageFrames takes apart what comes over a connection, however it was cut. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

// kTcpBuffer: what a rank holds of frames to or from one peer over TCP. kTcpPiece: bytes of the largest
// payload there.
inline constexpr std::size_t kTcpBuffer = std::size_t{512} << 10;
inline constexpr std::size_t kTcpPiece = std::size_t{128} << 10;

inline bool has_payload(FrameKind kind) { return kind == FrameKind::eager || kind == FrameKind::piece; }

// kKinds: the kind as it travels says what the message is of, too, in steps of this many.
inline constexpr std::uint32_t kKinds = 8;
inline std::uint32_t kind_on_wire(const MessageFrame& frame) {
    return frame.element * kKinds + static_cast<std::uint32_t>(frame.kind);
}
// Reads a frame's kind and element as they travelled. Throws LinkLost for what no rank sends.
void read_kind(MessageFrame& frame, std::uint64_t kind, int peer);

// Appends the frame as it travels over a connection, with its payload behind it.
void put_frame(std::vector<std::byte>& out, const MessageFrame& frame, const std::byte* payload);

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

}  // namespace detail
}  // namespace ddprun
