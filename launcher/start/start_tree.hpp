// Which relay starts which others. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/start/start_message.hpp"

namespace ddprun::inline launch {

inline constexpr int kDefaultFanOut = 32;
inline constexpr int kMaxFanOut = 4096;

// Nodes that are reached by way of the first of them.
using StartBranch = std::vector<StartNode>;

// At most `fan_out` (≥ 2) branches of nearly the same size, in the nodes' order; none is empty.
std::vector<StartBranch> branches_of(const std::vector<StartNode>& nodes, int fan_out);

// Those of the starter: node 0 and the nodes of its own machine alone, the others as above. Node 0 comes first.
std::vector<StartBranch> branches_of_starter(const std::vector<StartNode>& nodes, int fan_out);

// What the first node's relay is told of a branch.
StartPlan plan_of_branch(const StartPlan& whole, StartBranch branch);

// The words behind the launcher's name for a node's agent: the plan's options, but for those that the plan itself decides.
// `port` 0: not known.
std::vector<std::string> agent_words(const StartPlan& plan, const StartNode& node, int port);

}  // namespace ddprun::inline launch
