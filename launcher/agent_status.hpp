// AgentStatus: what an agent does at the moment, for those who ask a running launcher. Plain values.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun {

// One worker of this node in the current round.
struct WorkerStatus {
    int rank = 0;
    int local_rank = 0;
    pid_t pid = 0;
    bool running = true;
    int exit_code = 0;  // of one that has ended: what a shell would show
    bool operator==(const WorkerStatus&) const = default;
};

struct AgentStatus {
    std::string state;  // as AgentMachine has it: running, stopping, …
    std::string job_id;
    int round = 0;
    int restart_count = 0;
    int max_restarts = 0;
    int world_size = 0;
    std::vector<WorkerStatus> workers;
    bool operator==(const AgentStatus&) const = default;
};

}  // namespace ddprun
