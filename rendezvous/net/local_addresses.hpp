// Addresses and networks: which addresses this machine has, which network they are in, and where node 0
// listens with them.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {
inline namespace base {

// Network is what CIDR writes: an address and the number of its leading bits that count. Networks are pure.
struct Network {
    bool is_v6 = false;
    std::array<std::uint8_t, 16> address{};  // an IPv4 network uses the first four
    int prefix = 0;

    // False for what is no numeric address, and for the other family.
    bool contains(std::string_view text) const;
};

// Reads `10.0.0.0/8`, `fd00::/8`; an address without a length stands for itself alone. Bits behind the prefix
// may be set and are ignored.
std::optional<Network> parse_network(std::string_view text);

// Reads one or more, with commas between.
std::optional<std::vector<Network>> parse_networks(std::string_view text);

// LocalAddress is one address of one interface of this machine.
struct LocalAddress {
    std::string interface;
    std::string address;  // numeric
    bool is_loopback = false;
};

// Writes an address of IPv4 or IPv6 in numbers; empty where the system cannot.
std::string numeric_host(const sockaddr* address);

// Returns the addresses of the interfaces that are up, but for IPv6 ones that hold on one link only; in the
// system's order. Throws system_error. Blocking; any thread.
std::vector<LocalAddress> local_addresses();

// Names those that are not loopback's, the first kMaxAddressesNamed: `10.0.0.1 (eth0), fd00::1 (eth0)`.
inline constexpr std::size_t kMaxAddressesNamed = 8;
std::string addresses_text(const std::vector<LocalAddress>& addresses);

// True for 127.0.0.0/8 and ::1; false for what is no numeric address.
bool is_loopback_address(const std::string& address);

// ListenPlan says where node 0 listens for its job; it is decided before anything is started. Pure.
//
//   auto               on loopback, and on those addresses of this machine that --master-addr stands for
//   several nodes,     on all addresses, since others know it as another one: where it is not known here, or
//                      as an
//   a name             address of loopback only (127.0.1.1 in many an /etc/hosts)
//   --listen any       on all addresses, whatever --master-addr is (where that is translated on the way here)

struct ListenPlan {
    bool any = false;
    std::vector<std::string> addresses;  // numeric, besides loopback's; empty with `any`
    // Others reach this machine by the name of --master-addr, and its own programs only themselves.
    bool name_stays_here = false;
};

struct ListenRequest {
    int nnodes = 1;
    bool any = false;         // --listen any
    std::string master_addr;  // as the user wrote it
    // It stands for these here, or this is why that is not known (resolve_host).
    std::variant<std::vector<std::string>, std::string> resolved;
    std::vector<LocalAddress> own;  // of this machine
};

// True of what stands for all addresses of a machine where something listens: 0.0.0.0, ::, *. Nobody can be
// reached by it.
bool is_wildcard(const std::string& address);

// True if other machines reach what listens there.
bool leads_out(const ListenPlan& plan);

// True if one of these addresses leads to this machine, whose own ones are given.
bool has_own_address(const std::vector<std::string>& addresses, const std::vector<LocalAddress>& own);

// Makes the plan, or one line that says why --master-addr cannot be node 0's. A name that is not known here
// is no obstacle for several nodes: the others may know it.
std::variant<ListenPlan, std::string> plan_listening(const ListenRequest& request);

}  // namespace base
}  // namespace ddprun
