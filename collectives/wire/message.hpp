// Messages on data connections: a header that names the sender's call, then the payload. Non-blocking.
//
// A writer or reader is the state of one message on a link; the payload passes straight between the caller's
// memory and the socket. Both throw LinkLost. The length of the payload is not in the message: it follows
// from the call, which both ends must agree on.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "collectives/wire/frame.hpp"
#include "collectives/wire/tcp_link.hpp"

namespace ddprun::inline detail {

class MessageState {
  public:
    // Whether the last write() or read() moved anything.
    bool moved() const noexcept { return moved_; }
    bool header_done() const noexcept { return header_done_ == kHeaderSize; }
    const TcpLink& link() const noexcept { return link_; }

  protected:
    MessageState(TcpLink& link, const std::array<std::byte, kHeaderSize>& header)
        : link_(link), header_(header) {}
    // What remains of the header goes in front, so that a small message is one system call. move(parts) returns
    // the bytes moved of both, this function those of the payload.
    template <class Move>
    std::size_t move_parts(std::byte* payload, std::size_t size, Move move);

    TcpLink& link_;
    std::array<std::byte, kHeaderSize> header_;

  private:
    std::size_t header_done_ = 0;
    bool moved_ = false;
};

class MessageWriter : public MessageState {
  public:
    MessageWriter(TcpLink& link, const Call& call) : MessageState(link, encode_header(call)) {}

    // Writes what fits of the header and `size` bytes of payload. Returns the bytes of payload written.
    std::size_t write(const std::byte* payload, std::size_t size);
};

class MessageReader : public MessageState {
  public:
    explicit MessageReader(TcpLink& link) : MessageState(link, {}) {}

    // Reads what has come of the header and of `size` bytes of payload. Returns the bytes of payload read.
    // When header_done() has become true, the caller must look at header() before it uses the payload.
    std::size_t read(std::byte* payload, std::size_t size);
    // The sender's call; nothing if the bytes are no header.
    std::optional<Call> header() const { return decode_header(header_); }
};

}  // namespace ddprun::inline detail
