// The table of features has what this launcher can do besides running workers in rounds. A new one is a file of this wing and
// a row of the table.
#pragma once

#include <memory>
#include <vector>

#include "launcher/agent/feature.hpp"

namespace ddprun::inline launch {

// Makes those that were asked for, in the order of the table, by which they are called.
std::vector<std::unique_ptr<Feature>> make_features(FeatureInputs& inputs);

}  // namespace ddprun::inline launch
