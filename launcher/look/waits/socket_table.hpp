// SocketTable has the connections of this machine, of TCP and between local processes, as the kernel tells
// any process (NETLINK_SOCK_DIAG): by inode, and each with its other end.
//
// Read once for a look. A process in another network namespace has none of its sockets here; a kernel without
// the modules tcp_diag and unix_diag has none at all.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/look/waits/wait_kind.hpp"
#include "rendezvous/base/deadline.hpp"

namespace ddprun {
inline namespace launch {

// InternetAddress: an address of IPv4 is in the form that IPv6 has for it.
struct InternetAddress {
    std::array<std::uint8_t, 16> bytes{};
    std::uint16_t port = 0;

    bool operator==(const InternetAddress&) const = default;
    bool operator<(const InternetAddress& other) const {
        return std::tie(bytes, port) < std::tie(other.bytes, other.port);
    }
};

// Returns "10.0.0.1:4000" or "[::1]:4000"; empty for an address of zeros without a port. Pure.
std::string to_string(const InternetAddress& address);

// SocketEntry is one socket. `own.address` is empty, since most are never shown: SocketTable::end_of() fills
// it in.
struct SocketEntry {
    std::uint32_t inode = 0;
    bool is_listening = false;
    SocketEnd own;
    InternetAddress local;
    InternetAddress remote;
    std::string name;               // of a local socket: a path, or behind a '@' an abstract name
    std::uint32_t other_inode = 0;  // of a local socket
    bool is_local = false;
};

// kMaxSockets: what the kernel tells beyond them is left out.
inline constexpr std::size_t kMaxSockets = 65'536;

// Reads messages of the kernel's answer, as one datagram has them; adds to `sockets`. Returns false after the
// last one of the answer, and for bytes of another form. Pure.
bool parse_sockets(std::span<const std::byte> datagram, std::vector<SocketEntry>& sockets);

class SocketTable {
  public:
    explicit SocketTable(std::vector<SocketEntry> sockets = {});
    // Asks the kernel, until the deadline at most.
    static SocketTable read(Deadline deadline);

    const std::vector<SocketEntry>& all() const { return sockets_; }
    // Returns the socket with this inode; nullptr if there is none.
    const SocketEntry* find(std::uint64_t inode) const;
    // Returns the socket at the other end; nullptr if that is not here.
    const SocketEntry* other_end_of(const SocketEntry& socket) const;
    // Returns the end with its address.
    static SocketEnd end_of(const SocketEntry& socket);

  private:
    std::vector<SocketEntry> sockets_;
    std::map<std::uint64_t, std::size_t> by_inode_;
    std::map<std::pair<InternetAddress, InternetAddress>, std::size_t> by_ends_;
};

}  // namespace launch
}  // namespace ddprun
