// make_started_agent() makes the feature of an agent that a relay has started (launcher/start/relay.hpp). The
// feature says which port the agent has and that its workers run, and ends the agent when the job is not
// wanted any more. The line is a socket that the agent has for its standard input.
//
//   port 29871      first of all; node 0's, which has taken a free one
//   runs            its workers do
//
// The line ends with the relay, however that ends.
#pragma once

#include <memory>

#include "launcher/agent/feature.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

struct LineLoss {
    bool is_node_0 = false;
    bool has_run = false;     // a round has begun
    bool is_elastic = false;  // the job goes on without a node that leaves
};

// Says whether an agent that has lost its line ends itself. Node 0 ends the job. Before the first round every
// agent ends, since nothing would ever tell the others that there will be none. In an elastic job each agent
// leaves; where all do so, the job ends. Elsewhere an agent that only lost its line, with its relay, goes on:
// the coordinator tells it when the job is over. Pure.
bool ends_with_line(const LineLoss& loss);

struct StartedAgentOptions {
    // line: of an agent that a relay has started. The feature takes it; all copies of these options share it.
    std::shared_ptr<OwnedDescriptor> line;
};

std::unique_ptr<Feature> make_started_agent(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
