// The addresses of this machine.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

// One address of one interface.
struct LocalAddress {
    std::string interface;
    std::string address;  // numeric
    bool is_loopback = false;
};

// Those of the interfaces that are up, but for IPv6 ones that hold on one link only; in the system's order.
// Throws system_error.
std::vector<LocalAddress> local_addresses();

}  // namespace ddprun
