// By which interface the workers of this node should reach those of other nodes, and at which address they are reached: those
// that carry the rendezvous. Pure.
//
// Gloo, NCCL and TensorPipe otherwise take what the machine's own name stands for (127.0.1.1 on a stock
// Debian) or the first interface they like (docker0).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {

// The interface that has this address; nothing for loopback (all nodes are on this machine, or nobody knows)
// and for an address that is not ours.
std::optional<std::string> carrier_interface(const std::string& address,
                                             const std::vector<LocalAddress>& own);

// Names it to Gloo, NCCL and TensorPipe, unless the user has chosen. Returns what was done, in words; empty
// if nothing was.
std::string name_carrier_interface(Environment& environment, const std::string& address,
                                   const std::vector<LocalAddress>& own);

// The address of this node in a round of so many: that by which the rendezvous has shown that it is reached (it may be
// translated on the way; empty: nobody knows), and where there are no others, loopback.
std::string address_of_node(const std::string& address, int nodes);

}  // namespace ddprun
