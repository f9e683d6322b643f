// RankProcesses are the processes of one worker, and which of them does the rank's work.
#pragma once

#include <sys/types.h>

#include <vector>

#include "rendezvous/job/agent_status.hpp"

namespace ddprun {
inline namespace launch {

struct RankProcesses {
    WorkerStatus worker;
    std::vector<pid_t> processes;  // the worker and those below it, parents first; empty: it has ended
};

// Returns the processes of each worker of the node.
std::vector<RankProcesses> rank_processes(const AgentStatus& node);

// Returns the process that does the rank's work: of `bash run.sh`, `uv run train.py` the Python below, or the
// program that uses our collectives.
pid_t working_process(const RankProcesses& rank);

}  // namespace launch
}  // namespace ddprun
