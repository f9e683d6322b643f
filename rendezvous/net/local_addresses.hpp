// LocalAddress is an address of this machine, Network a range of addresses, ListenPlan where node 0 listens.
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

// Network is an address and the number of its leading bits that count, as CIDR writes it. Pure.
struct Network {
    bool is_v6 = false;
    std::array<std::uint8_t, 16> address{};  // an IPv4 network uses the first four
    int prefix = 0;

    // Says whether the address is in the network; false for the other family and for what is no numeric
    // address.
    bool contains(std::string_view text) const;
};

// Reads `10.0.0.0/8` or `fd00::/8`; an address without a length stands for itself alone. Bits behind the
// prefix may be set and are ignored.
std::optional<Network> parse_network(std::string_view text);

// Reads one network or more, separated by commas.
std::optional<std::vector<Network>> parse_networks(std::string_view text);

// LocalAddress is one address of one interface of this machine.
struct LocalAddress {
    std::string interface;
    std::string address;  // numeric
    bool is_loopback = false;
};

// Returns an IPv4 or IPv6 address as numeric text; empty where the system cannot.
std::string numeric_host(const sockaddr* address);

// Returns the addresses of all interfaces that are up, in the system's order, without IPv6 link-local ones.
// Throws system_error. Blocking; any thread.
std::vector<LocalAddress> local_addresses();

// kMaxAddressesNamed: how many addresses addresses_text() names, loopback's left out: `10.0.0.1 (eth0),
// fd00::1 (eth0)`.
inline constexpr std::size_t kMaxAddressesNamed = 8;
std::string addresses_text(const std::vector<LocalAddress>& addresses);

// Says whether the text is an address in 127.0.0.0/8 or ::1; false for what is no numeric address.
bool is_loopback_address(const std::string& address);

// ListenPlan says where node 0 listens for its job; decided before anything is started. Pure.
//
//   auto            on loopback, and on those addresses of this machine that --master-addr stands for
//   several nodes   on all addresses, if --master-addr cannot be resolved here, or is a name that stands here
//                   for loopback only (127.0.1.1 in many an /etc/hosts): other nodes resolve it otherwise
//   --listen any    on all addresses, whatever --master-addr is (which may be translated on the way here)
struct ListenPlan {
    bool any = false;
    std::vector<std::string> addresses;  // numeric, besides loopback's; empty with `any`
    // name_stays_here: --master-addr leads other nodes here, but this machine's own programs to loopback.
    bool name_stays_here = false;
};

struct ListenRequest {
    int nnodes = 1;
    bool any = false;         // --listen any
    std::string master_addr;  // as the user wrote it
    // resolved: the addresses that --master-addr stands for here, or why they are not known (resolve_host).
    std::variant<std::vector<std::string>, std::string> resolved;
    std::vector<LocalAddress> own;  // of this machine
};

// Says whether the address stands for all addresses of a listening machine: 0.0.0.0, ::, *. No peer can
// connect to it.
bool is_wildcard(const std::string& address);

// Says whether other machines reach a listener of this plan.
bool leads_out(const ListenPlan& plan);

// Says whether one of the addresses leads to this machine; `own` are its addresses.
bool has_own_address(const std::vector<std::string>& addresses, const std::vector<LocalAddress>& own);

// Returns the plan, or one line that says why --master-addr cannot be node 0's. For several nodes an unknown
// name is no obstacle: the other nodes may know it.
std::variant<ListenPlan, std::string> plan_listening(const ListenRequest& request);

}  // namespace base
}  // namespace ddprun
