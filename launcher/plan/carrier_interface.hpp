// By which interface the workers of this node should reach those of other nodes: the one that carries the
// rendezvous. Pure.
//
// Gloo, NCCL and TensorPipe otherwise take what the machine's own name stands for (127.0.1.1 on a stock
// Debian) or the first interface they like (docker0).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {

// By which they take an interface's name.
inline constexpr std::array<const char*, 3> kInterfaceVariables = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME",
                                                                   "TP_SOCKET_IFNAME"};

// The interface that has this address; nothing for loopback (all nodes are on this machine, or nobody knows)
// and for an address that is not ours.
std::optional<std::string> carrier_interface(const std::string& address,
                                             const std::vector<LocalAddress>& own);

// Names it to Gloo, NCCL and TensorPipe, unless the user has chosen. Returns what was done, in words; empty
// if nothing was.
std::string name_carrier_interface(Environment& environment, const std::string& address,
                                   const std::vector<LocalAddress>& own);

// The address by which the workers of a node without others reach each other.
std::string loopback_of(const std::string& master_addr);

}  // namespace ddprun
