// This machine's name and addresses, and those behind a name as this machine sees it. Blocking; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::inline base {

// The machine's own name, without a look at any resolver; "unknown" where the system refuses.
std::string host_name();

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

}  // namespace ddprun::inline base
