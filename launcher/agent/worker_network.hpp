// WorkerNetwork is where this node's workers find the store in each round, and by which interface they go
// there. The agent owns it and uses it on its thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/agent/launch_options.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/output/launcher_log.hpp"
#include "launcher/plan/own_address.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/link/rendezvous_link.hpp"
#include "rendezvous/link/store_door.hpp"
#include "rendezvous/net/port_range.hpp"

namespace ddprun {
inline namespace launch {

// Returns the ports that listeners of this agent may take if they have no port of their own.
FreePorts free_ports_of(const LaunchOptions& options);

// WorkerNetwork: the store is at its own place or, on nodes other than the host's and if the host has chosen
// so, at this agent's door to it.
class WorkerNetwork {
  public:
    // WorkerNetwork listens already if the job has a key and several nodes, since it may have doors then, and
    // throws as listen_tcp does. What the user of this node should know about the door is logged on the
    // agent's executor, which outlives it.
    WorkerNetwork(AgentControls& agent, const LaunchOptions& options, LauncherLog& log);

    // Returns what the workers of a round are started with; called before they start. The interface becomes
    // part of their environment, in place of the one of the round before; which it is and why is said once.
    WorkerStation begin_round(LaunchOptions& options, const RoundReady& round, const RendezvousLink& link);

  private:
    void use(const Carrier& carrier, LaunchOptions& options);
    // Returns node 0 as programs on this node reach it: by what others call it, unless that name leads
    // nowhere here.
    Endpoint host_place(const LaunchOptions& options, const RendezvousLink& link,
                        const std::string& own_address);
    Endpoint store_of(const RoundReady& round, const RendezvousLink& link, const Endpoint& host);

    LauncherLog& log_;
    std::unique_ptr<StoreDoor> door_;
    std::vector<std::string> named_;  // variables that are not the user's
    std::string said_;
    std::string remarked_;
    std::string renamed_;
};

}  // namespace launch
}  // namespace ddprun
