// What this agent says of its job and of itself to the coordinator, and, on node 0, what the coordinator asks of
// the others.
#pragma once

#include <string>

#include "launcher/agent/launch_options.hpp"
#include "rendezvous/coordinator/control_message.hpp"
#include "rendezvous/coordinator/rendezvous_server.hpp"
#include "rendezvous/etcd/etcd_election.hpp"

namespace ddprun {

// Of this machine.
std::string host_name();

// `wants_rank_ends`: see Hello.
Hello hello_of(const LaunchOptions& options, bool wants_rank_ends);

// Of node 0; makes the job's id, which is different for every launch, also for two with the same --rdzv-id at the
// same time.
RendezvousServerOptions server_options_of(const LaunchOptions& options);

// Of an agent whose host is elected in etcd.
ElectionOptions election_options_of(const LaunchOptions& options);

// "node 0 of 2 serves the rendezvous at 127.0.0.1:29500"; for --verbose.
std::string rendezvous_text(const LaunchOptions& options, bool hosts);

// Whether this agent hosts the coordinator, if it is the first to do so.
bool may_host(const LaunchOptions& options);

}  // namespace ddprun
