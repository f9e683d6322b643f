// HostSettings: what the environment says about the host a rank runs on, and at which of the host's addresses
// the other ranks reach it. Pure.
//
//   DDPRUN_HOSTID            what this host is called: ranks with the same text share memory. By default the
//                            machine's name and boot, see host_identity.hpp. Lets one machine act as several.
//   DDPRUN_SOCKET_IFNAME     interfaces to use, as NCCL_SOCKET_IFNAME: `eth,ib` names that begin so,
//                            `=eth0` exactly that one, `^docker` and `^=docker0` all but those
//   DDPRUN_NET               networks to use, `10.0.0.0/8,fd00::/8`; what ddprun's --net sets
//   DDPRUN_PORT_RANGE        ports where ranks listen for each other, `30000-30100`; what ddprun's
//                            --port-range sets
//   DDPRUN_SOCKETS_PER_PEER  connections for each direction and neighbour, 1 to 4, for large messages; the
//                            ranks take the smallest of their wishes. More than one help where a network
//                            limits each flow; within a machine they do not
// Without DDPRUN_SOCKET_IFNAME and DDPRUN_NET the address is the one that carried the rendezvous. With both,
// an address must satisfy both.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/net/port_range.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {

inline constexpr int kDefaultSocketsPerPeer = 1;
inline constexpr std::size_t kMaxHostId = 128;

struct InterfaceFilter {
    bool excludes = false;
    bool exact = false;
    std::vector<std::string> names;

    // Returns the place in `names` of the first name that fits the interface.
    std::optional<std::size_t> place_of(const std::string& interface) const;
};

struct HostSettings {
    std::string host_id;  // empty: the machine's own identity
    std::optional<InterfaceFilter> interfaces;
    std::string interfaces_text;  // as in the environment
    std::vector<Network> networks;
    std::string networks_text;
    std::optional<PortRange> ports;  // nothing: the kernel chooses
    int sockets_per_peer = kDefaultSocketsPerPeer;

    bool chooses_address() const noexcept { return interfaces.has_value() || !networks.empty(); }
};

// Reads the settings. Throws CollectiveError, invalid_argument, that names the variable.
HostSettings read_host_settings(const Environment& environment);

// Returns the first of `addresses` that satisfies the settings, in the order of the names or networks given.
// Among equals, addresses of the family of `usual` come first, and loopback last. Throws invalid_argument
// that lists all addresses if there is none. Only for settings with chooses_address().
std::string choose_address(const HostSettings& settings, std::span<const LocalAddress> addresses,
                           const std::string& usual);

}  // namespace detail
}  // namespace ddprun
