// kStepOfTwo: a step of Slurm on two nodes, seen from the second one.
#pragma once

#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {

inline const Environment kStepOfTwo = {{"SLURM_JOB_ID", "7"},
                                       {"SLURM_STEP_ID", "0"},
                                       {"SLURM_STEP_NUM_NODES", "2"},
                                       {"SLURM_STEP_NUM_TASKS", "2"},
                                       {"SLURM_STEP_NODELIST", "n[1-2]"},
                                       {"SLURM_NODEID", "1"},
                                       {"SLURM_PROCID", "1"},
                                       {"SLURM_LOCALID", "0"}};

// Returns the environment with this variable set.
inline Environment with_variable(Environment environment, const char* name, const char* value) {
    environment[name] = value;
    return environment;
}

}  // namespace ddprun
