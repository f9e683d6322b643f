// The messages between agents and the coordinator. Plain values; control_wire.hpp gives their bytes.
//
// One conversation, from an agent's side:
//   Hello → (Waiting)* → RoundReady → WorkersSucceeded | WorkerFailed | AgentSignalled
//         → (Stop → WorkersGone)? → Finish → Goodbye
// or Refused at any time before RoundReady.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

// What ended, or would have ended, the job first.
struct Failure {
    enum class Kind { worker_failed, node_lost, signalled };

    Kind kind = Kind::worker_failed;
    int node_rank = 0;
    std::string host;
    int rank = -1;         // global rank of the worker, -1 when no worker is meant
    int local_rank = -1;   // likewise
    std::int64_t pid = 0;  // of the worker; 0 if it was never started
    int exit_code =
        0;  // worker_failed: what a shell would report, 128+n for a signal; node_lost: kExitUnavailable
    int signal = 0;  // the signal that ended the worker, or that the agent was sent; 0 if none
    bool core_dumped = false;
    std::string message;  // one sentence more, for example why a program could not be started

    bool operator==(const Failure&) const = default;
};

// --- agent to coordinator
// -------------------------------------------------------------------------------------

// The first message of an agent: who it is and what it believes the job to be.
struct Hello {
    std::string version;  // of ddprun; all agents of a job must be of one version
    std::string run_id;
    int node_rank = 0;
    int nnodes = 1;
    int local_world_size = 1;
    std::string role = "default";
    std::string host;
    std::int64_t pid = 0;

    bool operator==(const Hello&) const = default;
};

// All workers of the node ended with 0.
struct WorkersSucceeded {
    int round = 0;
    bool operator==(const WorkersSucceeded&) const = default;
};

// A worker of the node failed; the agent stops the others without waiting for an answer.
struct WorkerFailed {
    int round = 0;
    Failure failure;
    bool operator==(const WorkerFailed&) const = default;
};

// The agent was sent a terminating signal; it forwards it to its workers without waiting for an answer.
struct AgentSignalled {
    int round = 0;
    int signal = 0;
    bool operator==(const AgentSignalled&) const = default;
};

// No worker of the node is left after a stop. `all_zero`: every one of them ended with 0.
struct WorkersGone {
    int round = 0;
    bool all_zero = false;
    bool operator==(const WorkersGone&) const = default;
};

// The agent has read Finish and closes.
struct Goodbye {
    bool operator==(const Goodbye&) const = default;
};

// --- coordinator to agent
// -------------------------------------------------------------------------------------

// The agent is not part of the job; `exit_code` is what it ends with.
struct Refused {
    std::string reason;
    int exit_code = 0;
    bool operator==(const Refused&) const = default;
};

// Who is there and who is not, while the job waits for its nodes. At most kMaxMissingListed numbers are
// listed.
struct Waiting {
    int joined = 0;
    int expected = 0;
    std::vector<int> missing;
    bool operator==(const Waiting&) const = default;
};

// The round begins: what one agent needs to start its workers.
struct RoundReady {
    int round = 0;
    std::string job_id;  // unique for each launch, on all nodes the same
    int group_rank = 0;
    int group_world_size = 1;
    int base_rank = 0;  // global rank of the node's first worker
    int world_size = 1;
    int role_base_rank = 0;
    int role_world_size = 1;
    int restart_count = 0;
    bool operator==(const RoundReady&) const = default;
};

// Stop the node's workers now; `cause` is the job's first failure.
struct Stop {
    int round = 0;
    Failure cause;
    bool operator==(const Stop&) const = default;
};

// The job is over on all nodes. `failed` says whether `cause` holds anything.
struct Finish {
    int exit_code = 0;
    bool failed = false;
    Failure cause;
    bool operator==(const Finish&) const = default;
};

using ControlMessage = std::variant<Hello, WorkersSucceeded, WorkerFailed, AgentSignalled, WorkersGone,
                                    Goodbye, Refused, Waiting, RoundReady, Stop, Finish>;

inline constexpr int kMaxMissingListed = 64;

// The launcher's own exit codes (design: one table for all rooms; README lists them).
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 69;  // rendezvous impossible or timed out, or a node lost
inline constexpr int kExitInternal = 70;
inline constexpr int kExitSystem = 71;       // the system refused: fork, port taken
inline constexpr int kExitPreempted = 75;    // all workers ended 0 after a forwarded signal
inline constexpr int kExitNotAdmitted = 77;  // refused by the coordinator
inline constexpr int kExitSignalBase = 128;

}  // namespace ddprun
