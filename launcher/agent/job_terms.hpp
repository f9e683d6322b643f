// What this agent says of its job and of itself to the coordinator, and, on node 0, what the coordinator asks of
// the others.
#pragma once

#include <string>

#include "launcher/agent/join_status.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/output/launcher_log.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/link/rendezvous_link.hpp"
#include "rendezvous/server/rendezvous_server.hpp"

namespace ddprun::inline launch {

// `wants_rank_ends`: see Hello.
Hello hello_of(const LaunchOptions& options, bool wants_rank_ends);

// Which ports listeners of this agent may take that have none of their own.
FreePorts free_ports_of(const LaunchOptions& options);

// Of node 0; makes the job's id, which is different for every launch, also for two with the same --rdzv-id at the
// same time.
RendezvousServerOptions server_options_of(const LaunchOptions& options);

// `options` outlives the link, and is told where this agent hosts.
RendezvousLinkOptions link_options_of(LaunchOptions& options, Hello hello);

// "node 0 of 2 serves the rendezvous at 127.0.0.1:29500"; for --verbose.
std::string rendezvous_text(const LaunchOptions& options, bool hosts);

// Whether this node is to say before the start what all nodes would say alike: on a screen that they share, node 0.
bool speaks_for_all(const LaunchOptions& options);

// Whether this agent hosts the coordinator, if it is the first to do so.
bool may_host(const LaunchOptions& options);

// Whether this agent, which hosts or does not, has something to do when the name where the nodes meet becomes known.
bool awaits_name(const LaunchOptions& options, bool hosts);
// It has become known.
void master_is_known(LaunchOptions& options, LauncherLog& log);
// Has it do so, and takes over where. Who has the port where it would host as the first may be its job's coordinator, or
// shows itself: it joins that. Else throws as RendezvousLink::host() does.
void host_if_due(LaunchOptions& options, RendezvousLink& link, JoinReporter& reporter, LauncherLog& log);

}  // namespace ddprun::inline launch
