// The hosts that a scheduler has given to this job, as the environment tells. Pure.
#pragma once

#include <string>

#include "launcher/cluster/host_list.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {

// Slurm's list, that of the allocation: agents that come from several srun calls have steps, and lists of these, of
// their own. This machine is in it by the name of its host; where that is not there, by what Slurm calls the node, a
// variable that mpirun may have brought from another one.
HostList find_host_list(const Environment& environment, const std::string& host_name);

}  // namespace ddprun
