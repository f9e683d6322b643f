// cluster_lines and the functions around it put a ClusterTable into words for users: all of it, or one line
// at start-up. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/cluster_table.hpp"
#include "launcher/cluster/family.hpp"

namespace ddprun {
inline namespace launch {

// fact_name, belief_text and situation_text name a value in words: "master address"; "a process launcher";
// "one process on each node".
std::string_view fact_name(Fact fact);
std::string_view belief_text(Belief belief);
std::string_view situation_text(Situation situation);

// Makes one line for each value, with its source and rivals, and one for a refusal.
std::vector<std::string> cluster_lines(const ClusterTable& table);

// Makes "2 nodes by SLURM_STEP_NUM_NODES, this is node 1 by SLURM_NODEID, they meet at n1:23456 by
// SLURM_STEP_NODELIST", with what the user said, too. `port` is the one that counts in the end.
std::string derived_line(const ClusterTable& table, int port);

// Lists the rivals of what the user has said, for the end of an error: " (SLURM_STEP_NUM_NODES says 4)".
// Empty: none.
std::string rivals_text(const ClusterTable& table, Fact fact);

}  // namespace launch
}  // namespace ddprun
