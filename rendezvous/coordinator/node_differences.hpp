// In what nodes differ that should be alike. Pure; the Coordinator asks once all have come.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/coordinator/job_summary.hpp"

namespace ddprun {

// Sentences; beyond them the last one counts what is left.
inline constexpr std::size_t kMaxDifferencesTold = kMaxDifferencesInMessage;
// Names of traits that are looked at, in alphabetical order.
inline constexpr std::size_t kMaxTraitsCompared = 512;
// In one sentence: values besides the most frequent one, and nodes of each of these.
inline constexpr std::size_t kMaxValuesNamed = 3;
inline constexpr std::size_t kMaxNodesNamed = 4;

// One sentence for each trait that differs between nodes with workers of one role:
//   nodes differ in NCCL_DEBUG: node 2 (gpu07) has "INFO", the others "WARN"
// The others are the most; where there are as many of each, those with the lowest node number. A trait that a node
// does not have is "not set" there.
std::vector<std::string> differences_of(const JobNodes& nodes);

// The one sentence of a job that is refused for them (--strict-env).
Refused refused_for(const std::vector<std::string>& differences);

}  // namespace ddprun
