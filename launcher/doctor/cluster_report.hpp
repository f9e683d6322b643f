// ClusterReport is what `ddprun doctor` says of several nodes: each one's own report, how they differ, and how each reaches
// each other one. As text for one screen, and as JSON. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/doctor/node_report.hpp"

namespace ddprun::inline launch {

struct ClusterReport {
    std::vector<NodeSummary> nodes;
    std::vector<PairReach> pairs;   // their nodes by the order above
    std::vector<Finding> findings;  // of all of them together
};

// Returns the state of the worst finding of all.
FindingState state_of(const ClusterReport& report);

// More lines of findings are counted.
inline constexpr std::size_t kMaxGroupLines = 60;

// Findings of several nodes that are the same are one line; what is in order on all of them is one for all.
std::string to_text(const ClusterReport& report);

// Writes one object, a line for each node and each pair.
std::string to_json(const ClusterReport& report);

}  // namespace ddprun::inline launch
