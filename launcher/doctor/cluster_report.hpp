// ClusterReport is what `ddprun doctor` says of several nodes: each one's own report, how they differ, how
// each reaches each other one, and how fast it is. As text for one screen, and as JSON. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/doctor/node_report.hpp"

namespace ddprun {
inline namespace launch {

struct ClusterReport {
    std::vector<NodeSummary> nodes;
    std::vector<PairReach> pairs;   // their nodes by the order above, as those below
    std::vector<NodeRate> rates;    // of those that were measured, by node
    std::vector<Finding> findings;  // of all of them together
};

// Returns the state of the worst finding of all.
FindingState state_of(const ClusterReport& report);

// "38.2 Gbit/s" and "2.5 ms".
std::string rate_text(std::int64_t mbit_s);
std::string time_text(std::int64_t us);

// More lines of findings are counted, and more nodes than that have no line in the table of rates.
inline constexpr std::size_t kMaxGroupLines = 60;
inline constexpr std::size_t kMaxRateLines = 16;

// Findings of several nodes that are the same are one line; what is in order on all of them is one for all.
// Below them is a table of the rates, the slowest node first.
std::string to_text(const ClusterReport& report);

// Writes one object, a line for each node, pair and rate.
std::string to_json(const ClusterReport& report);

}  // namespace launch
}  // namespace ddprun
