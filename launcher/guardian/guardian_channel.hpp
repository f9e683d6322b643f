// GuardianChannel: one end of the conversation between agent and guardian. Messages keep their borders,
// descriptors travel beside them, and the end of the other process is an event.
//
// A local socket, close-on-exec, not blocking. A message too long for the socket's buffer goes through an
// unnamed file in memory. Used by one thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/system/deadline.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

class GuardianChannel {
  public:
    // What is longer is not put into the socket.
    static constexpr std::size_t kMaxInline = 32 * 1024;
    // The three standard streams.
    static constexpr std::size_t kMaxDescriptors = 3;

    struct Packet {
        std::string bytes;
        std::vector<OwnedDescriptor> descriptors;
        bool incomplete = false;  // this process had no descriptor numbers left for what was sent along
    };
    struct Nothing {};  // not yet
    struct Lost {};     // the other end is closed, as a rule because its process ended

    // Both ends, none of them on the numbers 0 to 2. Throws system_error when there are no descriptors left.
    static std::pair<GuardianChannel, GuardianChannel> make_pair();

    explicit GuardianChannel(OwnedDescriptor socket) : socket_(std::move(socket)) {}

    int fd() const { return socket_.get(); }
    void close() { socket_.reset(); }

    // 0, or an errno and nothing was sent: EAGAIN if the other end must read first, EPIPE if it is lost,
    // others if the file in memory cannot be had. At most kMaxGuardianMessage bytes.
    int send(std::string_view bytes, std::span<const int> descriptors = {});

    // The next message.
    std::variant<Packet, Nothing, Lost> receive();

    // Waits until there may be something to receive, or room to send; false when the deadline has passed.
    bool wait_to_receive(Deadline deadline) const;
    bool wait_to_send(Deadline deadline) const;

  private:
    int send_packet(std::string_view head, std::string_view bytes, std::span<const int> descriptors);

    OwnedDescriptor socket_;
    std::string buffer_;
};

}  // namespace ddprun::inline launch
