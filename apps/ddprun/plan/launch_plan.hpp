// resolve_launch() makes of the plan of the job and this machine what the agent carries out: the one plan of
// a launch. The launch itself, --dry-run, --explain and --adapt all go by it. Pure; NodeFacts holds what it
// needs to know of the machine.
#pragma once

#include "apps/ddprun/plan/job_plan.hpp"
#include "apps/ddprun/plan/node_facts.hpp"
#include "launcher/path_template.hpp"

namespace ddprun {
inline namespace app {

// Returns LaunchOptions but for what is made at the start, as the job's key. Throws UsageError for what does
// not fit this machine: `gpu` without a GPU, more workers than GPUs, a --master-addr on node 0 that is none
// of its addresses. Also for ranks that a job of one node does not have.
LaunchOptions resolve_launch(const JobPlan& job, const NodeFacts& facts);

// Returns why the first program that cannot be started cannot, with its name and with what may have been
// meant.
std::optional<ProgramFault> program_fault(const JobPlan& job, const NodeFacts& facts);

// Returns the facts for paths that are opened before any round has begun.
PathFacts path_facts_of(const JobPlan& job, const NodeFacts& facts);

}  // namespace app
}  // namespace ddprun
