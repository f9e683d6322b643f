// Whose process has the other end of a TCP connection, where that is on this machine: loopback does not keep other users
// away. The kernel says so to anybody (NETLINK_SOCK_DIAG, some 8 µs a question).
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline base {

struct ConnectionOwner {
    enum class Kind {
        user,       // a process of `uid` on this machine, in our network namespace
        elsewhere,  // no process there has it
        closed,     // it is on this machine, but no process has it any more
        untold,     // it is on this machine, but the system does not answer such questions
    };
    Kind kind = Kind::untold;
    uid_t uid = 0;
};

// Used on one thread; keeps one descriptor from its first question on.
class ConnectionOwners {
  public:
    // `socket` is connected.
    ConnectionOwner of(const boost::asio::ip::tcp::socket& socket);

  private:
    OwnedDescriptor netlink_;
    std::uint32_t asked_ = 0;
};

}  // namespace ddprun::inline base
