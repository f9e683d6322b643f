// cluster_findings tells what is found of several nodes beside each other: which is missing, how they differ,
// which clock is wrong, which node cannot reach which other, which is slow. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/cluster_report.hpp"

namespace ddprun {
inline namespace launch {

// kClocksApart: log lines and file times of nodes with clocks further apart are in the wrong order. Beyond
// kClocksFarApart, tickets and certificates (munge, Kerberos, TLS) may be refused, too.
inline constexpr std::chrono::seconds kClocksApart{1};
inline constexpr std::chrono::seconds kClocksFarApart{30};
// kMuchSlower: a node is slow if its bandwidth times this is below the median.
inline constexpr std::int64_t kMuchSlower = 4;
// kMuchLater: a node's answer is late if it takes more than this many times the median, and longer than
// kLateLatencyUs.
inline constexpr std::int64_t kMuchLater = 10;
inline constexpr std::int64_t kLateLatencyUs = 1'000;
// kLeastCompared: fewer nodes than this are not compared with each other.
inline constexpr std::size_t kLeastCompared = 3;

// Tells of a node of the job that has fallen silent; `what` says since when.
Finding silent_node_finding(int rank, std::string_view what);
// Tells how many of the nodes have come; `absent` are the names of the others, where they are known.
Finding presence_finding(int expected, int there, const std::vector<std::string>& absent);

// Tells how the nodes differ. `labels`, here and below: what to call the nodes, in their order.
std::vector<Finding> difference_findings(const std::vector<std::string>& labels,
                                         const std::vector<NodeSummary>& nodes);
std::vector<Finding> reach_findings(const std::vector<std::string>& labels,
                                    const std::vector<PairReach>& pairs);

// Says why not all nodes were measured, or not to the end.
std::vector<Finding> unmeasured_findings(const std::vector<std::string>& labels,
                                         const std::vector<ReachReport>& reports);

// Compares the clocks with that of node 0.
std::vector<Finding> clock_findings(const std::vector<std::string>& labels,
                                    const std::vector<NodeRate>& rates);
std::vector<Finding> speed_findings(const std::vector<std::string>& labels,
                                    const std::vector<NodeRate>& rates);
std::vector<Finding> latency_findings(const std::vector<std::string>& labels,
                                      const std::vector<NodeRate>& rates);

// Returns the names of other nodes that are of no use on a node that has asked for them.
std::vector<UnknownName> unknown_names(const std::vector<ListedNode>& peers,
                                       const std::vector<NameFacts>& names);
// Tells of the unknown names on all nodes, in the nodes' order.
std::vector<Finding> name_findings(const std::vector<std::string>& labels,
                                   const std::vector<std::string>& hosts,
                                   const std::vector<ReachReport>& reports);

// Returns all of the above but silence and presence, for a report that has its nodes, pairs and rates.
std::vector<Finding> cluster_findings(const ClusterReport& report, const std::vector<ReachReport>& reports);

}  // namespace launch
}  // namespace ddprun
