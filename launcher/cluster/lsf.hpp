// What the readers of LSF's variables share: those of a script, and those of the tasks of blaunch.
#pragma once

#include <string>
#include <vector>

#include "launcher/cluster/family.hpp"

namespace ddprun::inline launch {

// The job's hosts in their order, and the slots of each. `source` becomes the variable that named them.
std::vector<ListedHost> read_lsf_hosts(const ClusterView& view, std::string& source);

void claim_lsf_identity(const ClusterView& view, FamilyFacts& facts);

}  // namespace ddprun::inline launch
