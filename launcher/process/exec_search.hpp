// Where execvp would look for a program, worked out before the fork, where memory may be allocated.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddprun::inline launch {

// Pure. The paths to try in order: the name itself if it has a slash, else it under every directory of `path` (an
// empty directory is the current one; without a PATH the system's default is taken). An empty name has no
// candidates.
std::vector<std::string> exec_candidates(const std::string& name, const std::optional<std::string>& path);

// The whole path of the file that execvp would take; empty: none.
std::string find_executable(const std::string& name, const std::optional<std::string>& path);

// Many workers run one program, and each would try all of PATH again: the candidates, with those in front
// that were there when this name was first looked for on this PATH. What has come or gone since is found all
// the same, as the others follow. As with a shell's hash table, only a program that comes to stand in front
// of one that was found goes unseen. Remembers one name.
class ExecSearch {
  public:
    const std::vector<std::string>& candidates(const std::string& name,
                                               const std::optional<std::string>& path);

  private:
    std::string name_;
    std::optional<std::string> path_;
    std::vector<std::string> candidates_;
};

}  // namespace ddprun::inline launch
