// TcpLink: one non-blocking TCP connection to another rank; and how such connections are listened for and
// dialled.
//
// A link is thin: no buffers, no threads, no waiting. The user of a link polls its descriptor. A link belongs
// to one thread at a time. Every descriptor is close-on-exec from birth, is closed in a forked child, never
// delays small writes, and notices a vanished machine by itself (kSilenceTimeout).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "collectives/wire/frame.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/system/own_process.hpp"

namespace ddprun {
inline namespace base {
class ConnectionOwners;
}  // namespace base
}  // namespace ddprun

namespace ddprun {
inline namespace detail {

// kSilenceTimeout: how long sent data may stay unacknowledged, or an idle connection silent, before the
// kernel gives the peer up.
inline constexpr std::chrono::milliseconds kSilenceTimeout{5000};

inline constexpr std::chrono::milliseconds kArrivalTimeout{1000};

// LinkLost: thrown by a link when its connection is over: the peer's end was closed (error 0) or broke (an
// errno). The reason is not known yet; see PeerMesh. Never leaves the library.
struct LinkLost {
    int peer = -1;
    int error_number = 0;
};

class TcpLink {
  public:
    TcpLink() = default;
    TcpLink(int peer, ProcessDescriptor fd) : peer_(peer), fd_(std::move(fd)) {}

    int peer() const noexcept { return peer_; }
    int descriptor() const noexcept { return fd_.get(); }

    // Ends the connection in both directions; the next read throws LinkLost.
    void shut_down() noexcept;
    // Sends the end of the stream: the peer finds it behind what was written. await_arrival() then waits
    // until the end has arrived, or the peer has ended, too, kArrivalTimeout at most. Without that wait a
    // peer that still writes would get a reset, which overtakes the rest on a busy machine.
    void write_no_more() noexcept;
    void await_arrival() noexcept;
    // Gives the descriptor away.
    ProcessDescriptor release() noexcept { return std::move(fd_); }

    // Moves what can be moved now and returns the bytes moved; 0 means that nothing can be. Throws LinkLost.
    std::size_t read_some(std::span<iovec> parts);
    std::size_t write_some(std::span<iovec> parts);

  private:
    int peer_ = -1;
    ProcessDescriptor fd_;
};

// TcpListener: a listening socket on one numeric address, with a port of the range, or of the kernel's
// choice.
class TcpListener {
  public:
    // Throws system_error when the address is not this machine's, sockets have run out, or ports of the range
    // have.
    explicit TcpListener(const std::string& address, const std::optional<PortRange>& ports = {});

    const Endpoint& endpoint() const noexcept { return endpoint_; }
    int descriptor() const noexcept { return fd_.get(); }
    // Returns the next connection, or none at the moment (also when descriptors have run out).
    ProcessDescriptor accept();
    // Makes an accepted connection ready for data. Not called for strangers, since it doubles the time that a
    // stranger costs.
    void tune_accepted(int fd) const;

  private:
    // Returns 0, or the errno.
    int listen_at(const std::string& address, std::uint16_t port);

    ProcessDescriptor fd_;
    Endpoint endpoint_;
};

// Returns whether a process of a user other than `own` and root has the other end of an accepted connection
// on this machine. False where the system does not tell, or no process has that end any more.
bool is_of_another_user(int fd, uid_t own, ConnectionOwners& owners);

// Begins to connect to a numeric address: the descriptor becomes writable when that has succeeded or failed
// (see connect_error). Throws system_error when connecting cannot even begin.
ProcessDescriptor begin_connect(const Endpoint& endpoint);

// Returns the errno of a connection that was begun; 0 when it stands.
int connect_error(int fd);

// Returns the address of this machine from which packets to `host` (a name or an address) leave: loopback for
// a loopback host. Nothing is sent. Throws system_error when the name cannot be resolved or there is no
// route.
std::string source_address(const std::string& host);

// Returns the address from which this machine reaches others in general, or loopback if it has no route
// anywhere.
std::string default_source_address();

// MessageState: one message on a data connection, which a MessageWriter or MessageReader moves: a header that
// names the sender's call, then the payload. Non-blocking.
//
// The payload passes straight between the caller's memory and the socket. Throws LinkLost. The length of the
// payload is not in the message: it follows from the call, which both ends must agree on.
class MessageState {
  public:
    // Returns whether the last write() or read() moved anything.
    bool moved() const noexcept { return moved_; }
    bool header_done() const noexcept { return header_done_ == kHeaderSize; }
    const TcpLink& link() const noexcept { return link_; }

  protected:
    MessageState(TcpLink& link, const std::array<std::byte, kHeaderSize>& header)
        : link_(link), header_(header) {}
    // Moves the rest of the header in front of the payload, so that a small message is one system call.
    // move(parts) returns the bytes moved of both, this function those of the payload.
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
    // Returns the sender's call; nothing if the bytes are no header.
    std::optional<Call> header() const { return decode_header(header_); }
};

}  // namespace detail
}  // namespace ddprun
