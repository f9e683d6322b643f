// The messages between agents and the coordinator. Plain values; control_wire.hpp gives their bytes.
//
// One conversation, from an agent's side:
//   Hello → Waiting*
//         → (RoundReady → (WorkersSucceeded | WorkerFailed | AgentSignalled)? → (Stop → WorkersGone →
//         Restarting?)?)+ → RankEnds* → Finish → Goodbye
// or Refused at any time before the first RoundReady; PeerRefused may come to node 0. RankEnds also go before
// WorkersSucceeded and WorkersGone, and NoticeSignal goes both ways while a round runs. While it runs, and
// before what they may be the cause of, WorkerDying comes from an agent and PeerDying goes to the others;
// WorkerDying also directly behind WorkerFailed and Stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/coordinator/job_command.hpp"

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
    std::int64_t unix_time_ms = 0;        // when its own node saw it; for people to read, never compared
    std::string message;                  // one sentence more, for example why a program could not be started
    std::string error_message;            // what the worker wrote into its error file …
    std::string traceback;                // … and where it was then
    std::string hint;                     // what is known beyond that, for example of the kernel's OOM killer
    std::vector<std::string> last_lines;  // of its stderr, at most kMaxLastLines
    // Where the worker did not fail by itself, but another did because of it, see culprit.hpp: the rank of
    // that one, else -1. All from exit_code to hint, and the last lines, are then the witness's.
    int witness = -1;
    std::string accusation;  // "does not answer"; empty without a witness
    std::string testimony;   // the witness's own words; likewise

    bool operator==(const Failure&) const = default;
};

// How one worker ended.
struct RankEnd {
    enum class Manner {
        succeeded,  // exit code 0, and nobody had told it to end
        failed,     // by itself: the first failure, or one that came too before it was told to end, even if
                    // that showed only later
        stopped,    // after ddprun had told it to, by no signal but those that ddprun had sent
        lost,       // with its node: nothing is known
    };

    int rank = 0;
    int local_rank = 0;
    int node_rank = 0;
    std::string host;
    std::int64_t pid = 0;
    int exit_code = 0;  // as a shell reports it
    int signal = 0;
    bool core_dumped = false;
    bool outlasted_grace = false;  // stopped by the SIGKILL at the end of the grace
    Manner manner = Manner::succeeded;
    std::int64_t wall_ms = 0;

    bool operator==(const RankEnd&) const = default;
};

// One restart of the job.
struct Restart {
    int round = 0;  // the one that failed
    std::string reason;
    std::int64_t unix_time_ms = 0;  // of that failure, see Failure

    bool operator==(const Restart&) const = default;
};

// --- agent to coordinator ---------------------------------------------------------------------------

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
    bool wants_rank_ends = false;  // send RankEnds before Finish (for --result-file)
    JobCommand command;            // the same on all nodes that have workers of one role …
    bool allow_different = false;  // … unless this one allows others
    std::string reached_at;        // the address of node 0 by which this agent has reached it

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

// A process of the worker ends, or has ended, that others may be waiting for (see LifeTable). That is no
// failure yet, but tells who died first when failures come: how a large process ended is known only long
// after those who relied on it have failed. After the first failure: the worker was ending by itself before
// its agent told it to.
struct WorkerDying {
    int round = 0;
    int rank = 0;
    std::uint64_t life = 0;  // by which the others know it; 0: they do not
    bool itself = false;     // it is the worker itself, so how the worker ends is decided
    bool operator==(const WorkerDying&) const = default;
};

// The agent was sent a terminating signal; it forwards it to its workers without waiting for an answer.
struct AgentSignalled {
    int round = 0;
    int signal = 0;
    bool operator==(const AgentSignalled&) const = default;
};

// No process of the node's workers is left after a stop.
struct WorkersGone {
    int round = 0;
    bool all_zero = false;    // every worker ended with 0
    bool progressed = false;  // the progress file changed during the round
    bool failed = false;      // a worker of this node failed by itself; `failure` is the first of them, …
    Failure failure;          // … now with what could be found out about it
    bool operator==(const WorkersGone&) const = default;
};

// How workers of the round ended; from an agent its own, from the coordinator everybody's. At most
// kMaxEndsInMessage in one message.
struct RankEnds {
    int round = 0;
    std::vector<RankEnd> ends;
    bool operator==(const RankEnds&) const = default;
};

// A signal that does not end the job. From an agent: it was sent one that the user wants passed on, and
// `signal` is what the workers shall get. From the coordinator, to all agents: send it to your workers now.
struct NoticeSignal {
    int round = 0;
    int signal = 0;
    bool requeue = false;  // the user wants kExitPreempted if all workers of the round end with 0 after it
    bool operator==(const NoticeSignal&) const = default;
};

// The agent has read Finish and closes.
struct Goodbye {
    bool operator==(const Goodbye&) const = default;
};

// --- coordinator to agent ---------------------------------------------------------------------------

// The agent is not part of the job; `exit_code` is what it ends with.
struct Refused {
    std::string reason;
    int exit_code = 0;
    bool operator==(const Refused&) const = default;
};

// To node 0's agent: somebody else was refused.
struct PeerRefused {
    std::string host;
    std::int64_t pid = 0;
    std::string reason;
    bool operator==(const PeerRefused&) const = default;
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
    int max_restarts = 0;
    std::string restart_reason;  // of the last restart; empty in the first round
    std::string reached_at;      // to node 0: its address as another node has reached it; empty if none has
    bool operator==(const RoundReady&) const = default;
};

// The process of this life, on another node, ends or has ended; tell your workers.
struct PeerDying {
    int round = 0;
    std::uint64_t life = 0;
    bool operator==(const PeerDying&) const = default;
};

// Stop the node's workers now; `cause` is the job's first failure, as far as is known.
struct Stop {
    int round = 0;
    Failure cause;
    bool operator==(const Stop&) const = default;
};

// All nodes' workers are gone, and the next round begins after `delay_ms`.
struct Restarting {
    Failure cause;
    int restart = 0;  // the first is 1
    int max_restarts = 0;
    int delay_ms = 0;
    bool operator==(const Restarting&) const = default;
};

// The job is over on all nodes. `failed` says whether `cause` holds anything.
struct Finish {
    int exit_code = 0;
    bool failed = false;
    Failure cause;
    std::string message;          // why no restart followed, where one might have
    std::vector<RankEnd> others;  // besides the first failure, worst first, at most kMaxOthersListed
    int failed_too = 0;           // how many of each manner there are, besides the first failure
    int stopped = 0;
    int lost = 0;
    int succeeded = 0;
    std::vector<Restart> restarts;  // the last kMaxRestartsListed
    // Nodes that could not be asked whether something of the job is left there: `node 1 (gpu07)`, at most
    // kMaxUnknownListed of them.
    std::vector<std::string> unknown_nodes;
    int unknown_node_count = 0;
    bool operator==(const Finish&) const = default;
};

using ControlMessage = std::variant<Hello, WorkersSucceeded, WorkerFailed, WorkerDying, AgentSignalled,
                                    WorkersGone, RankEnds, NoticeSignal, Goodbye, Refused, PeerRefused,
                                    Waiting, RoundReady, PeerDying, Stop, Restarting, Finish>;

// Limits of the texts and lists above, so that every message fits its frame.
inline constexpr std::size_t kMaxMissingListed = 64;
inline constexpr std::size_t kMaxLastLines = 20;
inline constexpr std::size_t kMaxLastLineText = 400;
inline constexpr std::size_t kMaxHostText = 255;
inline constexpr std::size_t kMaxReasonText = 256;
inline constexpr std::size_t kMaxEndsInMessage = 256;
inline constexpr std::size_t kMaxOthersListed = 20;
inline constexpr std::size_t kMaxRestartsListed = 100;
inline constexpr std::size_t kMaxUnknownListed = 8;

// The launcher's own exit codes (design: one table for all rooms; README lists them).
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 69;  // rendezvous impossible or timed out, or a node lost
inline constexpr int kExitInternal = 70;
inline constexpr int kExitSystem = 71;       // the system refused: fork, port taken
inline constexpr int kExitPreempted = 75;    // all workers ended 0 after a signal to end or to requeue
inline constexpr int kExitNotAdmitted = 77;  // refused by the coordinator
inline constexpr int kExitSignalBase = 128;

}  // namespace ddprun
