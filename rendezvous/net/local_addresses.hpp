// Networks as CIDR writes them: an address and the number of its leading bits that count. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::inline base {

struct Network {
    bool is_v6 = false;
    std::array<std::uint8_t, 16> address{};  // of an IPv4 network the first four
    int prefix = 0;

    // False for what is no numeric address, and for the other family.
    bool contains(std::string_view text) const;
};

// `10.0.0.0/8`, `fd00::/8`; an address without a length stands for itself alone. Bits behind the prefix may
// be set and are ignored.
std::optional<Network> parse_network(std::string_view text);

// One or more, with commas between.
std::optional<std::vector<Network>> parse_networks(std::string_view text);

// The addresses of this machine, and those behind a name as this machine sees it. Blocking; any thread.

// One address of one interface.
struct LocalAddress {
    std::string interface;
    std::string address;  // numeric
    bool is_loopback = false;
};

// Those of the interfaces that are up, but for IPv6 ones that hold on one link only; in the system's order.
// Throws system_error.
std::vector<LocalAddress> local_addresses();

// Those that are not loopback's, the first kMaxAddressesNamed: `10.0.0.1 (eth0), fd00::1 (eth0)`.
inline constexpr std::size_t kMaxAddressesNamed = 8;
std::string addresses_text(const std::vector<LocalAddress>& addresses);

// Of 127.0.0.0/8, or ::1; false for what is no numeric address.
bool is_loopback_address(const std::string& address);

// What a name stands for: numeric addresses, each once; or the resolver's sentence why there are none. May
// take as long as the resolver's own limits.
std::variant<std::vector<std::string>, std::string> resolve_host(const std::string& host);

// Where node 0 listens for its job: decided before anything is started. Pure.
//
//   auto               on loopback, and on those addresses of this machine that --master-addr stands for
//   several nodes,     on all addresses, since others know it as another one: where it is not known here, or as an
//   a name             address of loopback only (127.0.1.1 in many an /etc/hosts)
//   --listen any       on all addresses, whatever --master-addr is (where that is translated on the way here)

struct ListenPlan {
    bool any = false;
    std::vector<std::string> addresses;  // numeric, besides loopback's; empty with `any`
    // By the name of --master-addr others reach this machine, and its own programs only themselves.
    bool name_stays_here = false;
};

struct ListenRequest {
    int nnodes = 1;
    bool any = false;         // --listen any
    std::string master_addr;  // as the user wrote it
    // What it stands for here, or why that is not known (see resolve_host).
    std::variant<std::vector<std::string>, std::string> resolved;
    std::vector<LocalAddress> own;  // of this machine
};

// Whether other machines reach what listens there.
bool leads_out(const ListenPlan& plan);

// Whether one of these addresses leads to this machine, whose own ones are given.
bool has_own_address(const std::vector<std::string>& addresses, const std::vector<LocalAddress>& own);

// The plan, or one line that says why --master-addr cannot be node 0's. A name that is not known here is no
// obstacle for several nodes: the others may know it.
std::variant<ListenPlan, std::string> plan_listening(const ListenRequest& request);

}  // namespace ddprun::inline base
