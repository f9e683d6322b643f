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

namespace ddprun {

class MessageWriter {
  public:
    MessageWriter(TcpLink& link, const Call& call) : link_(link), header_(encode_header(call)) {}

    // Writes what fits of the header and `size` bytes of payload. Returns the bytes of payload written.
    // moved() tells whether anything was.
    std::size_t write(const std::byte* payload, std::size_t size);
    bool moved() const noexcept { return moved_; }
    bool header_done() const noexcept { return header_done_ == kHeaderSize; }
    const TcpLink& link() const noexcept { return link_; }

  private:
    TcpLink& link_;
    std::array<std::byte, kHeaderSize> header_;
    std::size_t header_done_ = 0;
    bool moved_ = false;
};

class MessageReader {
  public:
    explicit MessageReader(TcpLink& link) : link_(link) {}

    // Reads what has come of the header and of `size` bytes of payload. Returns the bytes of payload read.
    // When header_done() has become true, the caller must look at header() before it uses the payload.
    std::size_t read(std::byte* payload, std::size_t size);
    bool moved() const noexcept { return moved_; }
    bool header_done() const noexcept { return header_done_ == kHeaderSize; }
    // The sender's call; nothing if the bytes are no header.
    std::optional<Call> header() const { return decode_header(header_); }
    const TcpLink& link() const noexcept { return link_; }

  private:
    TcpLink& link_;
    std::array<std::byte, kHeaderSize> header_{};
    std::size_t header_done_ = 0;
    bool moved_ = false;
};

}  // namespace ddprun
