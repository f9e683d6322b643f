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
    std::vector<PairReach> pairs;   // nodes by their index in `nodes`, here and below
    std::vector<NodeRate> rates;    // of the nodes that were measured, by node
    std::vector<Finding> findings;  // about all nodes together
};

// Returns the state of the worst finding of all.
FindingState state_of(const ClusterReport& report);

// Returns "38.2 Gbit/s"; time_text returns "2.5 ms".
std::string rate_text(std::int64_t mbit_s);
std::string time_text(std::int64_t us);

// kMaxGroupLines: lines of findings at most; further ones are counted. kMaxRateLines: nodes at most in the
// table of rates.
inline constexpr std::size_t kMaxGroupLines = 60;
inline constexpr std::size_t kMaxRateLines = 16;

// Writes the report. A finding that is the same on several nodes is one line; all that is in order on every
// node shares one line. Below them is a table of the rates, the slowest node first.
std::string to_text(const ClusterReport& report);

// Writes one object, a line for each node, pair and rate.
std::string to_json(const ClusterReport& report);

}  // namespace launch
}  // namespace ddprun
