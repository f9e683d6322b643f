// NodeComparison: in what nodes differ that should be alike. Pure. The Coordinator keeps it and asks once all
// nodes have come, and again for nodes that come later: these are compared with what most nodes had before.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/control/control_message.hpp"
#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {
inline namespace job {

// kMaxDifferencesTold: sentences at most; beyond them the last one counts what is left.
inline constexpr std::size_t kMaxDifferencesTold = kMaxDifferencesInMessage;
// kMaxTraitsCompared: names of traits that are looked at, in alphabetical order.
inline constexpr std::size_t kMaxTraitsCompared = 512;
// kMaxValuesNamed, kMaxNodesNamed: how many one sentence names: values besides the most frequent one, and
// nodes of each of these.
inline constexpr std::size_t kMaxValuesNamed = 3;
inline constexpr std::size_t kMaxNodesNamed = 4;

// kMaxRolesCompared: roles by which nodes that come later are compared; there are rarely more than a few.
inline constexpr std::size_t kMaxRolesCompared = 64;

class NodeComparison {
  public:
    // Compares the nodes that have not been, and forgets their traits. Returns one sentence for each trait
    // that differs between nodes with workers of one role:
    //   nodes differ in NCCL_DEBUG: node 2 (gpu07) has "INFO", the others "WARN"
    // The arguments of the program are compared, too, and the words that differ are named. "The others" are
    // the largest group of nodes that are alike; of groups of one size, the one with the lowest node number.
    // Later calls keep the group of the first. A trait that a node does not have is "not set" there.
    std::vector<std::string> learn(JobNodes& nodes);

    // Compares, in the same way, one node that would come.
    std::vector<std::string> against(const Hello& newcomer) const;

    // Usual: the traits that most nodes of a role have.
    struct Usual {
        std::vector<NodeTrait> traits;
        JobCommand command;  // of the first of them
        bool programs_may_differ = false;
    };

  private:
    std::map<std::string, Usual, std::less<>> by_role_;
};

// Returns the refusal, in one sentence, of a job, or of a node that would come, for these differences
// (--strict-env).
Refused refused_for(const std::vector<std::string>& differences);
Refused newcomer_refused_for(const std::vector<std::string>& differences);

}  // namespace job
}  // namespace ddprun
