// AgentStatus is what an agent does at the moment, for clients that ask a running launcher. Plain values.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace job {

// WorkerStatus is one worker of this node in the current round.
struct WorkerStatus {
    int rank = 0;
    int local_rank = 0;
    pid_t pid = 0;
    std::optional<int> exit_code;  // what a shell would show; nothing while the worker runs
    std::optional<int> signal;     // 0: it ended by none
};
BOOST_DESCRIBE_STRUCT(WorkerStatus, (), (rank, local_rank, pid, exit_code, signal))

struct AgentStatus {
    std::string state;  // a state of AgentMachine: running, stopping, …
    std::string job_id;
    int node = 0;  // group rank
    std::string host;
    pid_t pid = 0;  // of the launcher
    int round = 0;
    int restart_count = 0;
    int max_restarts = 0;
    int resizes = 0;
    int group_world_size = 1;
    int world_size = 0;
    int first_rank = 0;  // of this node's workers
    std::vector<WorkerStatus> workers;
    std::optional<std::int64_t> kill_unix_ms;  // when workers that are told to end are killed
};
BOOST_DESCRIBE_STRUCT(AgentStatus, (),
                      (state, job_id, node, host, pid, round, restart_count, max_restarts, resizes,
                       group_world_size, world_size, first_rank, workers, kill_unix_ms))

}  // namespace job
}  // namespace ddprun
