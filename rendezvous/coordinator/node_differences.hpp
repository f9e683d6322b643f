// NodeComparison: in what nodes differ that should be alike. Pure; kept by the Coordinator, which asks once all have come,
// and again for those who come later: they are compared with what most nodes had before.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun::inline job {

// Sentences; beyond them the last one counts what is left.
inline constexpr std::size_t kMaxDifferencesTold = kMaxDifferencesInMessage;
// Names of traits that are looked at, in alphabetical order.
inline constexpr std::size_t kMaxTraitsCompared = 512;
// In one sentence: values besides the most frequent one, and nodes of each of these.
inline constexpr std::size_t kMaxValuesNamed = 3;
inline constexpr std::size_t kMaxNodesNamed = 4;

// Roles by which nodes that come later are compared; there are rarely more than a few.
inline constexpr std::size_t kMaxRolesCompared = 64;

class NodeComparison {
  public:
    // Compares those that have not been, and forgets their traits. One sentence for each trait that differs between
    // nodes with workers of one role:
    //   nodes differ in NCCL_DEBUG: node 2 (gpu07) has "INFO", the others "WARN"
    // The others are the most; where there are as many of each, those with the lowest node number; and in later calls
    // the same ones, as they were in the first. A trait that a node does not have is "not set" there.
    std::vector<std::string> learn(JobNodes& nodes);

    // The same of one node that would come.
    std::vector<std::string> against(const Hello& newcomer) const;

    // The usual traits are what most nodes of a role have.
    struct Usual {
        std::vector<NodeTrait> traits;
        bool programs_may_differ = false;
    };

  private:
    std::map<std::string, Usual, std::less<>> by_role_;
};

// The one sentence of a job, or of a node that would come, that is refused for them (--strict-env).
Refused refused_for(const std::vector<std::string>& differences);
Refused newcomer_refused_for(const std::vector<std::string>& differences);

}  // namespace ddprun::inline job
