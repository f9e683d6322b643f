// BlockingStream: one connected socket for a client that blocks, each time until a deadline at most.
//
// Owned and used by one thread at a time (TcpStore). Interrupted calls go on; a broken connection never
// raises SIGPIPE. It reports what happened and throws nothing: the owner knows what it means.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline base {

class BlockingStream {
  public:
    enum class Outcome { done, timed_out, lost };

    BlockingStream() = default;
    // Takes the descriptor over.
    explicit BlockingStream(int fd) : fd_(fd) {}

    bool is_open() const { return static_cast<bool>(fd_); }
    void close();

    // Sends everything. After anything but `done` the stream is of no more use.
    Outcome send(std::string_view bytes, Deadline deadline);
    // Receives exactly `size` bytes. After `timed_out` the stream is still in order if none of them had come,
    // as is always so for a single byte.
    Outcome receive(char* bytes, std::size_t size, Deadline deadline);

  private:
    Outcome await(short events, Deadline deadline) const;
    Outcome fill(char* bytes, std::size_t size, std::size_t& count, Deadline deadline);

    OwnedDescriptor fd_;
    // Received ahead: most replies come whole, but are taken in pieces.
    std::array<char, 4096> ahead_{};
    std::size_t ahead_begin_ = 0;
    std::size_t ahead_end_ = 0;
};

}  // namespace ddprun::inline base
