// --adapt: a process that a launcher has started for one worker becomes that worker.
#pragma once

#include "apps/ddprun/cluster_plan.hpp"
#include "launcher/agent/launch_options.hpp"

namespace ddprun::inline app {

// RANK, LOCAL_RANK and so on, of the launcher's own variables. Pure. Throws UsageError where no launcher has started this
// process, or one does not tell what is needed.
Environment task_variables(const ClusterPlan& plan);

// The local rank in `variables`, which argv_for_worker() wants.
int local_rank_of(const Environment& variables);

// The command line of the one program, where the launcher's tasks are the workers of the node. Pure.
CommandLine adapted_line(const ClusterPlan& plan, const Environment& variables);

// Executes the program in place of this process; throws system_error where that cannot be.
[[noreturn]] void become_task(const std::vector<std::string>& argv, const Environment& environment);

}  // namespace ddprun::inline app
