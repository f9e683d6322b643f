// HostClaim: of the agents of one job on one machine, at most one has it, and hosts the coordinator where its port is not
// known beforehand; the kernel takes it back when that agent ends. Taken in the network namespace, where ports are, too.
#pragma once

#include <string>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline job {

class HostClaim {
  public:
    // False: another agent has it.
    bool take(const std::string& run_id);

  private:
    OwnedDescriptor holder_;
};

}  // namespace ddprun::inline job
