// LinkObserver: what a link, and its searches, tell their agent, from the executor.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/control/heartbeat.hpp"
#include "rendezvous/server/refused_caller.hpp"

namespace ddprun {
inline namespace job {

class LinkObserver {
  public:
    // hear(), trouble(), lost() and lease_moves() mean what the events of CoordinatorClient do. lost() comes
    // only where the agent has to call seek(), or seek() has not helped.
    virtual void hear(const ControlMessage& message) = 0;
    virtual void trouble(const std::string& cause) = 0;
    virtual void lost(const CoordinatorLoss& loss) = 0;
    virtual void lease_moves(const std::optional<LeaseEnd>& end) = 0;
    // Tells that a coordinator takes over, which is to hear of this agent's workers before it is told that
    // the agent follows.
    virtual void be_led() = 0;
    // Returns whether workers of the round that ended may be left.
    virtual bool has_workers() const = 0;
    // Tells that this agent hosts the coordinator that leads the job from now on.
    virtual void leads() = 0;
    // Tells that an election has said where the coordinator is; this agent hosts it or not.
    virtual void place_known() = 0;
    // election_trouble() and unelected() mean what on_trouble and on_failed of EtcdElection do.
    virtual void election_trouble(const std::string& cause) = 0;
    virtual void unelected(const std::string& why) = 0;
    // Tells that the coordinator that this agent hosts has no other agent any more.
    virtual void others_left() = 0;
    // Tells that the coordinator hosted here cannot be relied upon any more, for this reason: the job is to
    // end.
    virtual void host_failed(const std::string& what) = 0;
    virtual void refused(const RefusedCaller& caller) = 0;  // at the port that this agent hosts
    virtual void say(const std::string& text) = 0;          // to the user
    virtual void step(const std::string& text) = 0;         // for --verbose

  protected:
    ~LinkObserver() = default;
};

}  // namespace job
}  // namespace ddprun
