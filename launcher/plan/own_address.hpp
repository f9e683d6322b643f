// OwnAddress and Carrier say which address and interface this node's workers use towards other nodes: what
// the user says, else the ones that carry the rendezvous. Pure.
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
    // resolved: the addresses that local_addr stands for here, or why they are not known (resolve_host).
    std::variant<std::vector<std::string>, std::string> resolved;
    std::string networks;  // the value of --net, sound; empty: not said
    std::vector<LocalAddress> own;
};

// Chooses the address of --local-addr, which must be one of this machine's and within the networks. Without
// --local-addr, chooses the first address of the first network that has any, loopback's last. Else returns
// one line that names the flag, its value and this node's addresses.
std::variant<OwnAddress, std::string> choose_own_address(const OwnAddressRequest& request);

// kInterfaceVariables: by these variables Gloo, NCCL and TensorPipe take an interface's name. Without the
// variables they take what the machine's own name stands for (127.0.1.1 on a stock Debian), or the first
// interface that suits them (docker0).
inline constexpr std::array<const char*, 3> kInterfaceVariables = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
                                                                   "TP_SOCKET_IFNAME"};

// CarrierFacts is what a round's node knows of its way to the others.
struct CarrierFacts {
    OwnAddress said;         // what the user has chosen
    std::string host;        // the coordinator's host, as this node calls it; empty: it is here
    std::string local;       // this end of the connection there …
    std::string seen;        // … and as the coordinator sees that end; empty: it has not said
    std::string reached_at;  // if the coordinator is here: where another node has reached it; empty: none has
    std::vector<LocalAddress> own;
};

struct Carrier {
    std::string address;    // of this node, as others reach it; empty: not known
    std::string interface;  // empty: none is to be named (all nodes are on this machine, or it is not known)
    std::string why;        // "carries the way to 10.0.0.1"
    std::string remark;     // one line where others see another address than this node has; else empty
};
Carrier find_carrier(const CarrierFacts& facts);

// Finds the interface that has this address; nothing for loopback and for an address that is not ours.
std::optional<std::string> carrier_interface(const std::string& address,
                                             const std::vector<LocalAddress>& own);

// Names the interface to Gloo, NCCL and TensorPipe, unless the user has chosen. Returns the variables that
// were set.
std::vector<std::string> name_interface(Environment& environment, const std::string& interface);

// Says in one line which variables were set and why; empty if none was.
std::string interface_text(const std::vector<std::string>& names, const Carrier& carrier);

// Returns the address by which the workers of a single node reach each other.
std::string loopback_of(const std::string& master_addr);

}  // namespace launch
}  // namespace ddprun
