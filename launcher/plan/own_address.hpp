// Which address and interface this node's workers are to use towards other nodes: what the user says, else
// those that carry the rendezvous. Pure.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace launch {

// OwnAddress is what the user has said; empty: nothing.
struct OwnAddress {
    std::string address;
    std::string interface;  // empty for loopback, which no interface carries to other nodes
    std::string source;     // "--local-addr gpu01", "--net 10.0.0.0/8"

    bool operator==(const OwnAddress&) const = default;
};

struct OwnAddressRequest {
    std::string local_addr;  // the value of --local-addr; empty: not said
    // It stands for these here, or this is why that is not known (resolve_host).
    std::variant<std::vector<std::string>, std::string> resolved;
    std::string networks;  // the value of --net, sound; empty: not said
    std::vector<LocalAddress> own;
};

// Chooses the address of --local-addr, which has to be one of this machine's and of the networks; else the
// first one of the first network that has any, loopback's last. Or one line that names the flag, its value
// and this node's addresses.
std::variant<OwnAddress, std::string> choose_own_address(const OwnAddressRequest& request);

// Gloo, NCCL and TensorPipe take an interface's name by these variables. Otherwise they take what the
// machine's own name stands for (127.0.1.1 on a stock Debian) or the first interface they like (docker0).
inline constexpr std::array<const char*, 3> kInterfaceVariables = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
                                                                   "TP_SOCKET_IFNAME"};

// CarrierFacts is what a round's node knows of its way to the others.
struct CarrierFacts {
    OwnAddress said;         // what the user has chosen
    std::string host;        // of the coordinator, as this node calls it; empty: it is here
    std::string local;       // this end of the connection there …
    std::string seen;        // … and as the coordinator sees it; empty: it has not said
    std::string reached_at;  // where it is here: this node as another one has reached it; empty: none has
    std::vector<LocalAddress> own;
};

struct Carrier {
    std::string address;    // of this node, as others reach it; empty: not known
    std::string interface;  // empty: none is to be named (all nodes are on this machine, or nobody knows)
    std::string why;        // "carries the way to 10.0.0.1"
    std::string remark;     // one line where others see another address than this node has; else empty
};
Carrier find_carrier(const CarrierFacts& facts);

// Finds the interface that has this address; nothing for loopback and for an address that is not ours.
std::optional<std::string> carrier_interface(const std::string& address,
                                             const std::vector<LocalAddress>& own);

// Names it to Gloo, NCCL and TensorPipe, unless the user has chosen. Returns the variables that were set.
std::vector<std::string> name_interface(Environment& environment, const std::string& interface);

// Says what was done and why, in one line; empty if nothing was.
std::string interface_text(const std::vector<std::string>& names, const Carrier& carrier);

// Returns the address by which the workers of a node without others reach each other.
std::string loopback_of(const std::string& master_addr);

}  // namespace launch
}  // namespace ddprun
