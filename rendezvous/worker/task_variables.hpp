// correct_task_variables() corrects what a task launcher (mpirun, srun) tells each of its tasks about its
// place. Where ddprun is such a task, it passes the variables on to several workers, for which they are not
// true. Pure.
#pragma once

#include <map>
#include <string>

namespace ddprun {
inline namespace base {

// TaskPlace is a worker's place among all workers and on its node.
//
// correct_task_variables() writes it into the variables of all task launchers that have told a place;
// variables that are not set stay unset. Where a place was wrong, it removes the variables by which MPI's
// library, Horovod or JAX would join in that place: two processes in one place would wait for each other.
struct TaskPlace {
    int rank, size, local_rank, local_size;
};
void correct_task_variables(std::map<std::string, std::string>& environment, const TaskPlace& place);

}  // namespace base
}  // namespace ddprun
