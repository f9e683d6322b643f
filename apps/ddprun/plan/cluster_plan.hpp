// A ClusterPlan is a command line to which the cluster's environment adds the nodes of the job, where the
// user has not named them. Pure.
#pragma once

#include "apps/ddprun/options/command_line.hpp"
#include "launcher/cluster/cluster_table.hpp"

namespace ddprun {
inline namespace app {

struct ClusterPlan {
    CommandLine line;         // with what was derived where nothing was said
    ClusterTable table;       // where all values of `line` come from
    bool is_derived = false;  // something about several nodes was derived, worth a line (derived_line)
};

// Returns how strongly an option from `origin` is believed.
Belief belief_of(const OptionOrigin& origin);

// Derives the values of the job from the environment and the command line. The table may hold a refusal.
ClusterTable table_of(const CommandLine& line, const ClusterView& view);

// Returns the port that the environment tells; nothing where the user has said one, or where none is told.
// Throws UsageError.
std::optional<std::uint16_t> derived_port(const ClusterTable& table);

// Plans the job. Throws UsageError where the environment speaks of several nodes or tasks, and no job can be
// made of that.
ClusterPlan plan_cluster(CommandLine line, ClusterTable table);
ClusterPlan plan_cluster(CommandLine line, const ClusterView& view);

}  // namespace app
}  // namespace ddprun
