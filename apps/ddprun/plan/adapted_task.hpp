// An AdaptedTask is for --adapt: a process that a launcher has started for one worker becomes that worker.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/ddprun/plan/job_plan.hpp"
#include "launcher/plan/program.hpp"

namespace ddprun {
inline namespace app {

// Returns RANK, LOCAL_RANK and so on, of the launcher's own variables. Pure. Throws UsageError where no
// launcher has started this process, or where one does not tell what is needed.
Environment task_variables(const JobPlan& job);

// Returns the local rank in `variables`, which argv_for_worker() wants.
int local_rank_of(const Environment& variables);

struct AdaptedTask {
    int rank = 0;
    int local_rank = 0;
    std::vector<std::string> argv;
    Environment environment;
    std::optional<ProgramFault> fault;                // why the program cannot be started
    std::shared_ptr<const std::string> read_program;  // LaunchOptions'
};

// Looks at this machine, and plans the one program as any launch does. Throws UsageError.
AdaptedTask find_adapted_task(const JobPlan& job);

// Executes the program in place of this process; throws system_error where that cannot be.
[[noreturn]] void become_task(const AdaptedTask& task);

}  // namespace app
}  // namespace ddprun
