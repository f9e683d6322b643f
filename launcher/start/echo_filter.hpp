// EchoFilter: every agent of a job says why it ended, in the same words; on one screen these stand once. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ddprun::inline launch {

// Lines of launchers that are remembered; then all are forgotten.
inline constexpr std::size_t kMaxEchoes = 4096;

class EchoFilter {
  public:
    // Of what a node's agent has said on stderr, whole lines: without the launcher's own lines that another node has said before,
    // word by word. What workers say stays. Behind the mark of the lines that are left stands the `host`, unless that is
    // empty.
    std::string fresh(int node, std::string_view text, std::string_view host = {});

  private:
    std::unordered_map<std::string, int> first_;  // line -> the node that said it
};

}  // namespace ddprun::inline launch
