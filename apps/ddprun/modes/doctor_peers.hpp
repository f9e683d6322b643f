// call_nodes() calls the other nodes for a node's doctor, and measure_rates() measures with them.
// Blocking; every wait is bounded.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "launcher/doctor/node_report.hpp"
#include "rendezvous/store/store.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace app {

// kCallLimit has room for a second try: the system sends again after a second what was lost on the way.
inline constexpr std::chrono::milliseconds kCallLimit{2'500};
inline constexpr std::size_t kMostCalledAtOnce = 256;

// Calls these nodes at their ports, and takes kCallLimit at most for each kMostCalledAtOnce. `self`, the rank
// of this node among them, is not called. The results are in the order of the nodes.
std::vector<PairReach> call_nodes(const std::vector<ListedNode>& nodes, int self);

// Measuring has what a node needs for measuring with others.
struct Measuring {
    std::shared_ptr<Store> store;
    std::string address;  // the node's own, where it is called
    Environment environment;
};
// kLeastMeasured: the amount that two nodes swap first. All nodes double it until all that they swap takes
// kEnoughTime.
inline constexpr std::size_t kLeastMeasured = 64 * 1024;
inline constexpr std::size_t kMostMeasured = 16 * 1024 * 1024;
inline constexpr std::chrono::milliseconds kEnoughTime{1'000};
// kMeasureLimit: measuring that takes longer altogether is given up; what was measured by then counts.
inline constexpr std::chrono::seconds kMeasureLimit{20};

// Measures how fast node `self` swaps data with each other one of `nodes` nodes, all of which call at the
// same time. Pairs swap equal amounts in the steps of an all_to_all, so no node is in two swaps at once. (One
// call of all_to_all would take equally long on all nodes, as each waits for the slowest.) The rate, and what
// has gone wrong, become part of `report`.
void measure_rates(const Measuring& own, int nodes, int self, ReachReport& report);

}  // namespace app
}  // namespace ddprun
