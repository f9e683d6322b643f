// LaunchValues are what --explain says of a launch: each value, and where it comes from. Pure.
#pragma once

#include <string>
#include <vector>

#include "apps/ddprun/plan/job_plan.hpp"
#include "apps/ddprun/plan/node_facts.hpp"
#include "launcher/agent/launch_options.hpp"
#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace app {

// A LaunchValue is a value that the launch would have.
struct LaunchValue {
    std::string name;
    std::string value;
    std::string source;  // a variable, an option, a file, or "default"

    bool operator==(const LaunchValue&) const = default;
};
BOOST_DESCRIBE_STRUCT(LaunchValue, (), (name, value, source))

// Returns the values of `options`, which resolve_launch() made of the other two.
std::vector<LaunchValue> launch_values(const JobPlan& job, const LaunchOptions& options,
                                       const NodeFacts& facts);

}  // namespace app
}  // namespace ddprun
