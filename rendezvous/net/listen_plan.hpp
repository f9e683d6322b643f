// Where node 0 listens for its job: decided before anything is started. Pure.
//
//   auto               on loopback, and on those addresses of this machine that --master-addr stands for
//   several nodes,     on all addresses, since others know it as another one: where it is not known here, or as an
//   a name             address of loopback only (127.0.1.1 in many an /etc/hosts)
//   --listen any       on all addresses, whatever --master-addr is (where that is translated on the way here)
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "rendezvous/net/local_addresses.hpp"

namespace ddprun::inline base {

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
