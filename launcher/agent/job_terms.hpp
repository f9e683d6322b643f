// What this agent says of its job to the coordinator, and, on node 0, what the coordinator asks of the
// others.
#pragma once

#include "launcher/agent/launch_options.hpp"
#include "rendezvous/coordinator/control_message.hpp"
#include "rendezvous/coordinator/rendezvous_server.hpp"

namespace ddprun {

// `wants_rank_ends`: see Hello.
Hello hello_of(const LaunchOptions& options, bool wants_rank_ends);

// Of node 0; makes the job's id.
RendezvousServerOptions server_options_of(const LaunchOptions& options);

}  // namespace ddprun
