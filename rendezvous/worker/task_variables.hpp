// A task launcher tells each of its tasks its place, and the launcher of ours that is such a task hands that
// on to several workers, for which it is not true. Pure.
#pragma once

#include <map>
#include <string>

namespace ddprun {
inline namespace base {

// Gives a worker its own place by the names of all launchers that have told one; those that are not set stay
// so. Where what was told is not true of the worker, the ways by which MPI's library, Horovod or JAX would
// take part in that place go: two processes in one would wait for each other.
struct TaskPlace {
    int rank, size, local_rank, local_size;
};
void correct_task_variables(std::map<std::string, std::string>& environment, const TaskPlace& place);

}  // namespace base
}  // namespace ddprun
