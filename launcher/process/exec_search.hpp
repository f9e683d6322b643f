// Where execvp would look for a program, worked out before the fork, where memory may be allocated. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// The paths to try in order: the name itself if it has a slash, else it under every directory of `path` (an
// empty directory is the current one; without a PATH the system's default is taken). An empty name has no
// candidates.
std::vector<std::string> exec_candidates(const std::string& name, const std::optional<std::string>& path);

}  // namespace ddprun
