// Whether a process launcher (srun, mpirun, flux run, …) has started this process as one of several, as its
// environment tells. Pure.
//
// The launchers and their variables are a table of peer_tasks.cpp. The first of them that is there is believed, as mpirun starts its helpers on other nodes by srun, and what
// these start inherits the helpers' step. Of Slurm only the step counts: what sbatch and salloc set
// (SLURM_NNODES, SLURM_NTASKS, SLURM_PROCID=0) is there in a batch script, too, where nobody has started
// several. A value that is no whole number of at least 1 is passed over.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {

// This process is one of several.
struct PeerTasks {
    std::string launcher;      // "a Slurm step"
    std::string evidence;      // "SLURM_STEP_NUM_TASKS=2"
    int tasks = 0;             // at least 2
    std::optional<int> task;   // this one's number, if it is told
    std::optional<int> nodes;  // if it is told, or follows for tasks that are spread evenly
    std::string node_rank;     // the variable that holds the node's number where one task runs on each
    std::string one_per_node;  // by which words the launcher starts one task on each node
};

// Nothing where this process is the only one, and for a worker of ddprun or torchrun: to that the variables
// come down from its agent, whose peers are in the job already.
std::optional<PeerTasks> find_peer_tasks(const Environment& environment);

// One line for a user who has started ddprun so without naming the nodes: each task would be a job of its own, and
// what to write instead.
std::string advice(const PeerTasks& peers);

}  // namespace ddprun
