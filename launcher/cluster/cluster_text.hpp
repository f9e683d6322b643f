// A ClusterTable as lines for people: all of it, or what a launcher says when it starts. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/cluster_table.hpp"

namespace ddprun::inline launch {

// "nodes", "master address"; "a process launcher", "the command line"; "one process on each node".
std::string_view fact_name(Fact fact);
std::string_view belief_text(Belief belief);
std::string_view situation_text(Situation situation);

// One line for each value, with its source and the rivals that said otherwise; and why it is refused, if it is.
std::vector<std::string> cluster_lines(const ClusterTable& table);

// "2 nodes by SLURM_STEP_NUM_NODES, this is node 1 by SLURM_NODEID, they meet at n1:23456 by SLURM_STEP_NODELIST"; with
// what was said by the user, too. `port` is the one that counts in the end.
std::string derived_line(const ClusterTable& table, int port);

// The rivals of what the user has said, for the end of an error: " (SLURM_STEP_NUM_NODES says 4)". Empty: none.
std::string rivals_text(const ClusterTable& table, Fact fact);

}  // namespace ddprun::inline launch
