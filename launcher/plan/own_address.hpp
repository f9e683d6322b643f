// Which of its addresses this node's workers are to use towards other nodes, where the user has a say in it. Pure.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"

namespace ddprun::inline launch {

// Empty where the user has not said: then it is the one that carries the rendezvous.
struct OwnAddress {
    std::string address;
    std::string interface;  // empty for loopback, which no interface carries to other nodes
    std::string source;     // "--local-addr gpu01", "--net 10.0.0.0/8"

    bool operator==(const OwnAddress&) const = default;
};

struct OwnAddressRequest {
    std::string local_addr;  // of --local-addr; empty: not said
    // What it stands for here, or why that is not known; see resolve_host.
    std::variant<std::vector<std::string>, std::string> resolved;
    std::string networks;  // of --net, sound; empty: not said
    std::vector<LocalAddress> own;
};

// The address of --local-addr, which has to be one of this machine's and of the networks; else the first one of the first
// network that has any, loopback's last. Or one line that names the flag, its value and this node's addresses.
std::variant<OwnAddress, std::string> choose_own_address(const OwnAddressRequest& request);

}  // namespace ddprun::inline launch
