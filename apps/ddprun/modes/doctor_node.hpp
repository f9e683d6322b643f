// run_doctor_node() plays one node's part of `ddprun doctor`; the functions here say which calls are
// doctor's, and what it looks at. Several nodes are looked at by a job, so that they are found, reached and
// kept from strangers as for any other job. A node's part in it is a worker, which is this very program. The
// worker looks at its node, calls all others, measures with them if all reach each other, and on rank 0
// prints what all have found. The nodes meet in the store of their job:
//
//   node/<rank>     NodeSummary of each node
//   nodes           NodeList: those with a summary in time; a node's place in it is its number from then
//                   on
//   reached         how many nodes have reached all others; all_reach: whether all have
//   reach/<place>   ReachReport of each node
//
// Every wait is bounded. A node that falls silent costs its own report, and what was still to be measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/surroundings.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace app {

// Returns true if these words are of that command: the first is `doctor`. `called` is the name of the
// launcher: where it stands in torchrun's place, `doctor` is a program, as ./doctor and -- doctor always are.
// Pure.
bool is_doctor_command(const std::vector<std::string>& words, const std::string& called);

// Returns what doctor looks at on this node.
LookRequest doctor_request(const Environment& environment, const std::string& log_dir);

// Returns kExitProblem on rank 0 where there is a problem, else 0. Throws UsageError, and system_error where
// the store is lost. Called in a process that has no other threads.
int run_doctor_node(const std::vector<std::string>& words, const Environment& environment);

}  // namespace app
}  // namespace ddprun
