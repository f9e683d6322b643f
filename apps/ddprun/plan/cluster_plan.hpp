// The cluster's environment adds to a command line the nodes of the job, where the user has not named them.
// Pure.
#pragma once

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/cluster/cluster_table.hpp"

namespace ddprun {
inline namespace app {

struct ClusterPlan {
    CommandLine line;         // with what was derived where nothing was said
    ClusterTable table;       // where all of it comes from
    bool is_derived = false;  // something of several nodes is, worth a line (derived_line)
};

// Says how strong the word of an option from there is.
Belief belief_of(const OptionOrigin& origin);

// Collects what is told of each value, refused or not.
ClusterTable table_of(const CommandLine& line, const ClusterView& view);

// Returns the port that the environment tells; nothing where the user has said one, or nobody has. Throws
// UsageError.
std::optional<std::uint16_t> derived_port(const ClusterTable& table);

// Throws UsageError where the environment speaks of several nodes or tasks, and no job can be made of that.
ClusterPlan plan_cluster(CommandLine line, ClusterTable table);
ClusterPlan plan_cluster(CommandLine line, const ClusterView& view);

}  // namespace app
}  // namespace ddprun
