// --check: this node is looked at as doctor does before anything starts, and takes no part where there is a
// problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/feature.hpp"
#include "launcher/doctor/surroundings.hpp"

namespace ddprun {
inline namespace launch {

// Doctor looks at the folder for temporary files, at /tmp for programs that ignore TMPDIR, at the folder for
// logs, and at the current folder, where the workers begin.
std::vector<FolderQuestion> folders_asked(const Environment& environment, const std::string& log_dir);

// Says each problem when it is asked whether the node is fit. nullptr without --check.
std::unique_ptr<Feature> make_node_check(FeatureInputs& inputs);

}  // namespace launch
}  // namespace ddprun
