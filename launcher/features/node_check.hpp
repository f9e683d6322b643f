// make_node_check() makes --check: this node is looked at as doctor does before anything starts, and takes no
// part where there is a problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/doctor/surroundings.hpp"

namespace ddprun {
inline namespace launch {

struct NodeCheckOptions {
    bool asked = false;  // --check
};

// Returns the folders that doctor looks at: the one for temporary files, /tmp for programs that ignore
// TMPDIR, the one for logs, and the current folder, where the workers begin.
std::vector<FolderQuestion> folders_asked(const Environment& environment, const std::string& log_dir);

// Makes the feature that says each problem when it is asked whether the node is fit.
std::unique_ptr<Feature> make_node_check(const FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
