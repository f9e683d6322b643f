// One node's part in a `ddprun doctor` of several: a worker of the job that doctor_call.hpp makes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun::inline app {

// The first word behind `doctor`; users do not write it.
inline constexpr std::string_view kNodeRoleFlag = "--as-node";

bool is_doctor_node(const std::vector<std::string>& words);

// Looks at this node, meets the others, and on rank 0 prints the report of all. Returns kExitProblem on rank 0 where there is
// a problem, else 0; throws UsageError, and system_error where the store is lost. The only thread of its process.
int run_doctor_node(const std::vector<std::string>& words, const Environment& environment);

}  // namespace ddprun::inline app
