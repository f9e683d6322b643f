// HostClaim: a claim that at most one agent of a job has on a machine. Where the port is not known
// beforehand, the agent with the claim hosts the coordinator. The kernel takes the claim back when that agent
// ends. Claims, like ports, belong to the network namespace.
#pragma once

#include <string>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace job {

class HostClaim {
  public:
    // Returns false if another agent of this user has the claim. Where another user holds the claim's name,
    // the next name is taken. Throws Error where there is none left.
    bool take(const std::string& run_id);

  private:
    OwnedDescriptor holder_;
};

}  // namespace job
}  // namespace ddprun
