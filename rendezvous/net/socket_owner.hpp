// This tells whose a socket is: which process listens on a port (for messages), and whose process has the
// other end of a connection (for who may come in).
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

// PortOwner is the process behind a listening socket, as /proc shows it. A process of another user, or of
// another namespace, cannot be seen without privilege; then there is none.
struct PortOwner {
    pid_t pid = 0;
    std::string command;  // the command line, as shown_command() has it
};

inline constexpr std::size_t kMaxCommandText = 200;

// Returns the arguments, each with its end as /proc has them, joined by blanks and cut at kMaxCommandText.
// Anybody may have written them: what is no printable ASCII becomes '?'. Pure.
std::string shown_command(std::string_view arguments);

// Finds the inodes of sockets that listen on `port` in the text of /proc/net/tcp or /proc/net/tcp6. Pure.
std::vector<std::uint64_t> listening_inodes(std::string_view proc_net_tcp, std::uint16_t port);

// Finds the first process that holds a listening socket on `port`. Any thread; reads files, takes
// milliseconds.
std::optional<PortOwner> find_port_owner(std::uint16_t port);

// ConnectionOwner says whose process has the other end of a TCP connection, where that is on this machine:
// loopback does not keep other users away. The kernel tells anybody (NETLINK_SOCK_DIAG, some 8 µs a
// question), if it has the module for it.
struct ConnectionOwner {
    enum class Kind {
        user,       // a process of `uid` on this machine, in our network namespace
        elsewhere,  // no process there has it
        closed,     // it is on this machine, but no process has it any more
        untold,     // it is on this machine, but the system does not answer such questions
    };
    Kind kind = Kind::untold;
    uid_t uid = 0;

    // Users share what is theirs with root only.
    bool is_other_than(uid_t own) const { return kind == Kind::user && uid != own && uid != 0; }
};

// SocketAnswer is what the system says of one TCP socket, of which it knows the two ends.
struct SocketAnswer {
    enum class Kind {
        nothing,     // it does not answer such questions
        absent,      // it knows no such socket: a kernel that cannot look for any says the same of each
        unattached,  // it knows the socket, but no process has it any more
        held,        // a process of `uid` has it
    };
    Kind kind = Kind::nothing;
    uid_t uid = 0;
};

// SocketQuestion asks the system for the socket whose own end is the first; one that listens has nothing at
// the second.
using SocketQuestion = std::function<SocketAnswer(const boost::asio::ip::tcp::endpoint& own,
                                                  const boost::asio::ip::tcp::endpoint& peer)>;

// Makes a SocketQuestion to the kernel, which keeps one descriptor from the first question on.
SocketQuestion ask_kernel();

// One thread asks it. That the system knows no such socket is believed if it knows one that is certainly
// there: a listener of our own, made for the first question to which "absent" comes.
class ConnectionOwners {
  public:
    explicit ConnectionOwners(SocketQuestion ask = ask_kernel()) : ask_(std::move(ask)) {}

    // `socket` is connected.
    ConnectionOwner of(const boost::asio::ip::tcp::socket& socket);
    // The same for one by its two ends; `local` is ours.
    ConnectionOwner of(const boost::asio::ip::tcp::endpoint& remote,
                       const boost::asio::ip::tcp::endpoint& local);

  private:
    bool knows_sockets(const boost::asio::ip::tcp& family);

    SocketQuestion ask_;
    std::optional<bool> knows_sockets_;
};

}  // namespace base
}  // namespace ddprun
