// What several nodes' words mean beside each other: differences, clocks, who cannot reach whom, who is slow. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/node_word.hpp"

namespace ddprun::inline launch {

// Log lines and file times of nodes further apart than that are in the wrong order; beyond the second one tickets and
// certificates (munge, Kerberos, TLS) may be refused, too.
inline constexpr std::chrono::seconds kClocksApart{1};
inline constexpr std::chrono::seconds kClocksFarApart{30};
// A pair, or a node, is slow that has less than this part of what others have.
inline constexpr std::int64_t kMuchSlower = 4;
// An answer is late that takes so many times the usual time, and longer than that.
inline constexpr std::int64_t kMuchLater = 10;
inline constexpr std::int64_t kLateLatencyUs = 1'000;
// Below that many nodes none is told from the others.
inline constexpr std::size_t kLeastCompared = 3;

// `labels`: what to call the nodes, in their order.
std::vector<Finding> difference_findings(const std::vector<std::string>& labels,
                                         const std::vector<NodeWord>& nodes);
// Against node 0's.
std::vector<Finding> clock_findings(const std::vector<std::string>& labels,
                                    const std::vector<PairReach>& pairs);
std::vector<Finding> reach_findings(const std::vector<std::string>& labels,
                                    const std::vector<PairReach>& pairs);
std::vector<Finding> speed_findings(const std::vector<std::string>& labels,
                                    const std::vector<PairReach>& pairs);
std::vector<Finding> latency_findings(const std::vector<std::string>& labels,
                                      const std::vector<PairReach>& pairs);

// Which names of other nodes are of no use on a node that has asked for them.
std::vector<UnknownName> unknown_names(const std::vector<MeetingNode>& peers,
                                       const std::vector<NameFacts>& names);
// What all of them have said of that, in the nodes' order.
std::vector<Finding> name_findings(const std::vector<std::string>& labels,
                                   const std::vector<std::string>& hosts,
                                   const std::vector<std::vector<UnknownName>>& unknown);

}  // namespace ddprun::inline launch
