// find_port_owner() finds the process that listens on a port (for messages), ConnectionOwners the user at a
// connection's other end (to decide which callers may come in).
#pragma once

#include <sys/types.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {
inline namespace base {

// PortOwner is the process behind a listening socket, as /proc shows it. Without privilege, a process of
// another user or another namespace cannot be seen.
struct PortOwner {
    pid_t pid = 0;
    std::string command;  // the command line, as shown_command() has it
};

inline constexpr std::size_t kMaxCommandText = 200;

// Returns the arguments, each with its end as /proc has them, joined by blanks and cut at kMaxCommandText.
// Any user may have written them: what is no printable ASCII becomes '?'. Pure.
std::string shown_command(std::string_view arguments);

// Finds the inodes of sockets that listen on `port` in the text of /proc/net/tcp or /proc/net/tcp6. Pure.
std::vector<std::uint64_t> listening_inodes(std::string_view proc_net_tcp, std::uint16_t port);

// Finds the first process that holds a listening socket on `port`. Any thread; reads files, takes
// milliseconds.
std::optional<PortOwner> find_port_owner(std::uint16_t port);

// ConnectionOwner is the user at the other end of a TCP connection, if that is on this machine: loopback does
// not keep other users away. The kernel tells any process (NETLINK_SOCK_DIAG, some 8 µs a question), if it
// has the module for it.
struct ConnectionOwner {
    enum class Kind {
        user,       // a process of `uid` on this machine, in our network namespace
        elsewhere,  // no process on this machine has it
        closed,     // it is on this machine, but no process has it any more
        untold,     // it is on this machine, but the system does not answer such questions
    };
    Kind kind = Kind::untold;
    uid_t uid = 0;

    // Says whether another user has the other end; root counts as our own user.
    bool is_other_than(uid_t own) const { return kind == Kind::user && uid != own && uid != 0; }
};

// SocketAnswer is what the system says of one TCP socket, by its two ends.
struct SocketAnswer {
    enum class Kind {
        nothing,     // the system does not answer such questions
        absent,      // no such socket; a kernel that cannot look for sockets says so of each
        unattached,  // no process has the socket any more
        held,        // a process of `uid` has it
    };
    Kind kind = Kind::nothing;
    uid_t uid = 0;
};

// SocketQuestion asks the system for the socket with `own` as its own end and `peer` as the other; a
// listening socket's `peer` has port 0.
using SocketQuestion = std::function<SocketAnswer(const boost::asio::ip::tcp::endpoint& own,
                                                  const boost::asio::ip::tcp::endpoint& peer)>;

// Makes a SocketQuestion to the kernel, which keeps one descriptor from the first question on.
SocketQuestion ask_kernel();

// ConnectionOwners tell the owners of connections; used by one thread. "absent" is believed only if the
// system finds a socket that certainly exists: a listener of our own, made at the first "absent".
class ConnectionOwners {
  public:
    explicit ConnectionOwners(SocketQuestion ask = ask_kernel()) : ask_(std::move(ask)) {}

    // Returns the owner of the other end of `socket`, which is connected.
    ConnectionOwner of(const boost::asio::ip::tcp::socket& socket);
    // Returns the owner of the `remote` end; `local` is the end of this process.
    ConnectionOwner of(const boost::asio::ip::tcp::endpoint& remote,
                       const boost::asio::ip::tcp::endpoint& local);

  private:
    bool knows_sockets(const boost::asio::ip::tcp& family);

    SocketQuestion ask_;
    std::optional<bool> knows_sockets_;
};

}  // namespace base
}  // namespace ddprun
