// By which of its addresses the others are to call a node of `ddprun doctor`: that by which workers would be reached. Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline launch {

// Of a worker's environment: in a network of DDPRUN_NET, else of the interface that Gloo was told to take (by --local-addr,
// or by the user), else `node_addr`, by which the node has reached node 0; empty: that is not known.
std::string meeting_address(const Environment& environment, const std::string& node_addr,
                            const std::vector<LocalAddress>& own);

}  // namespace ddprun::inline launch
