// The values that a launch would have, each with where it comes from, for --explain. Pure.
#pragma once

#include <string>
#include <vector>

#include "apps/ddprun/cluster_plan.hpp"
#include "apps/ddprun/node_facts.hpp"

namespace ddprun::inline app {

struct LaunchValue {
    std::string name;
    std::string value;
    std::string source;  // a variable, an option, a file, or "default"

    bool operator==(const LaunchValue&) const = default;
};

// `options` is what resolve_launch() made of the plan and the facts.
std::vector<LaunchValue> launch_values(const ClusterPlan& plan, const NodeFacts& facts,
                                       const LaunchOptions& options);

}  // namespace ddprun::inline app
