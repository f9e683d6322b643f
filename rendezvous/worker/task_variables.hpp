// correct_task_variables() corrects, for the workers, the place that a task launcher told ddprun as its task.
// Pure.
#pragma once

#include <map>
#include <string>

namespace ddprun {
inline namespace base {

// TaskPlace is a worker's place. correct_task_variables() writes it into the variables of all launchers that
// have told one; those that are not set stay so. Where the place that was told is wrong, the variables by
// which MPI's library, Horovod or JAX would take that place are removed. Two processes in one place would
// wait for each other. Settings of MPI's library that a user may have set (OMPI_MCA_btl, PMIX_MCA_gds) stay.
struct TaskPlace {
    int rank, size, local_rank, local_size;
    int nodes = 1;
};
void correct_task_variables(std::map<std::string, std::string>& environment, const TaskPlace& place);

}  // namespace base
}  // namespace ddprun
