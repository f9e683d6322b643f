// What the two readers of Slurm's variables share. Those of the step and those of the job are never mixed: in a step
// that is smaller than its job, SLURM_JOB_NODELIST still names the whole allocation.
#pragma once

#include <optional>
#include <string>

#include "launcher/cluster/family.hpp"
#include "launcher/cluster/host_list.hpp"

namespace ddprun::inline launch {

// The hosts that one of Slurm's lists names, with the tasks of each where `counts` tells these; a text that is none
// becomes a conflict.
void read_slurm_hosts(const ClusterView& view, FamilyFacts& facts, const std::string& list,
                      const std::string& counts);

// The hosts of the allocation, where nodes are numbered by them: agents that come from several srun calls have steps, and
// lists of these, of their own. This machine is in it by its name; where that is not there, by what Slurm calls the node, a
// variable that mpirun may have brought from another one.
HostList slurm_host_list(const ClusterView& view);

// Job, perhaps step, and how often it was requeued: "slurm-4711.0-r1". Nothing without a job.
std::optional<Claim> slurm_identity(const ClusterView& view, bool with_step);

// 2 and more for a heterogeneous job.
int slurm_components(const ClusterView& view);

// When the job has to end, and the GPUs that it has here.
void claim_slurm_limits(const ClusterView& view, FamilyFacts& facts);

}  // namespace ddprun::inline launch
