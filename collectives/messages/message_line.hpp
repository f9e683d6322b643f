// MessageLine: frames to and from one peer. Under the messenger's lock, but for is_ready().
//
// Frames come in the order in which they were put. A line never waits: a frame without room is refused, and
// is put again later.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/messages/message_frames.hpp"

namespace ddprun {
inline namespace detail {

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

}  // namespace detail
}  // namespace ddprun
