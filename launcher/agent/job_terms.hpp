// What this agent says of its job to the coordinator, and, on node 0, what the coordinator asks of the
// others.
#pragma once

#include <string>

#include "launcher/agent/launch_options.hpp"
#include "rendezvous/coordinator/control_message.hpp"
#include "rendezvous/coordinator/rendezvous_server.hpp"

namespace ddprun {

// `wants_rank_ends`: see Hello.
Hello hello_of(const LaunchOptions& options, bool wants_rank_ends);

// Of node 0; makes the job's id.
RendezvousServerOptions server_options_of(const LaunchOptions& options);

// "node 0 of 2 serves the rendezvous at 127.0.0.1:29500"; for --verbose.
std::string rendezvous_text(const LaunchOptions& options);

}  // namespace ddprun
