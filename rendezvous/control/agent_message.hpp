// What an agent says to the coordinator. Plain values; see control_message.hpp for the conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/job_command.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/job/rank_end.hpp"
#include "rendezvous/job/rank_range.hpp"
#include "rendezvous/membership/member_list.hpp"

namespace ddprun::inline job {

// Limits of the texts and lists below, so that every message fits its frame.
inline constexpr std::size_t kMaxEndsInMessage = 256;
inline constexpr std::size_t kMaxRangesInMessage = 64;

// The number of a node whose user gave it none: the coordinator will.
inline constexpr int kUnnumbered = -1;
// The position of a host that is in no list of the job's hosts.
inline constexpr int kUnlisted = -1;
// Addresses that one machine tells; it may well have more, of networks that no other machine sees.
inline constexpr std::size_t kMaxAddresses = 64;
// The place of a node among switches, or in a list.
inline constexpr std::size_t kMaxRankOrderText = 512;
// Why a node is not fit for the job.
inline constexpr std::size_t kMaxUnfitText = 1024;

// The first message of an agent: who it is and what it believes the job to be.
struct Hello {
    std::string version;  // of ddprun; all agents of a job must be of one version
    std::string run_id;
    int node_rank = 0;
    int nnodes = 1;     // at most
    int min_nodes = 0;  // with which the job may run, too; 0: with all of them only
    int local_world_size = 1;
    std::string role = "default";
    std::string host;
    std::int64_t pid = 0;
    bool wants_rank_ends = false;   // send RankEnds before Finish (for --result-file)
    JobCommand command;             // the same on all nodes that have workers of one role …
    bool allow_different = false;   // … unless this one allows others
    std::string reached_at;         // the address of node 0 by which this agent has reached it
    std::vector<NodeTrait> traits;  // of a job of several nodes: what should be alike on all
    std::int64_t grace_ms = 0;      // how long its workers may take to end
    // Where this agent would host the coordinator if the other one is lost; port 0: nowhere.
    std::string meeting_address;
    int meeting_port = 0;
    std::optional<Following> following;  // to one that would take over
    bool seeks_port = false;             // it calls several ports, and may well meet another job
    int list_position = kUnlisted;       // of its host in the list of hosts that it knows …
    int list_size = 0;                   // … of so many; 0: of none
    std::vector<std::string> addresses;  // of its machine, by which its workers may use the store
    // Its ranks are before those of nodes whose text comes later, as comes_before has it; empty: behind all that have one.
    std::string rank_order;
    // What it has found wrong with its own node: it takes no part, and says so for the others. Empty: nothing.
    std::string unfit;
};
BOOST_DESCRIBE_STRUCT(Hello, (),
                      (version, run_id, node_rank, nnodes, min_nodes, local_world_size, role, host, pid,
                       wants_rank_ends, command, allow_different, reached_at, traits, grace_ms,
                       meeting_address, meeting_port, following, seeks_port, list_position, list_size,
                       addresses, rank_order, unfit))
constexpr std::size_t limit_of(Of<&Hello::host>) { return kMaxHostText; }
constexpr std::size_t limit_of(Of<&Hello::reached_at>) { return kMaxHostText; }
constexpr std::size_t limit_of(Of<&Hello::meeting_address>) { return kMaxHostText; }
constexpr std::size_t limit_of(Of<&Hello::unfit>) { return kMaxUnfitText; }
constexpr std::size_t limit_of(Of<&Hello::rank_order>) { return kMaxRankOrderText; }
constexpr std::size_t limit_of(Of<&Hello::addresses>) { return kMaxAddresses; }
constexpr std::size_t limit_of(Of<&Hello::traits>) { return kMaxNodeTraits; }
constexpr NumberRange range_of(Of<&Hello::node_rank>) { return {kUnnumbered, kMaxNodes}; }
constexpr NumberRange range_of(Of<&Hello::nnodes>) { return {1, kMaxNodes}; }
constexpr NumberRange range_of(Of<&Hello::local_world_size>) { return {0, kMaxWorkersPerNode}; }
constexpr NumberRange range_of(Of<&Hello::grace_ms>) { return kMillisecondRange; }
constexpr NumberRange range_of(Of<&Hello::meeting_port>) { return kPortRange; }
constexpr NumberRange range_of(Of<&Hello::list_position>) { return {kUnlisted, kCountRange.most}; }

// All workers of the node ended with 0.
struct WorkersSucceeded {
    int round = 0;
};
BOOST_DESCRIBE_STRUCT(WorkersSucceeded, (), (round))

// A worker of the node failed; the agent stops the others without waiting for an answer.
struct WorkerFailed {
    int round = 0;
    Failure failure;
};
BOOST_DESCRIBE_STRUCT(WorkerFailed, (), (round, failure))

// A process of the worker ends, or has ended, that others may be waiting for (see LifeTable). That is no
// failure yet, but tells who died first when failures come: how a large process ended is known only long
// after those who relied on it have failed. After the first failure: the worker was ending by itself before
// its agent told it to.
struct WorkerDying {
    int round = 0;
    int rank = 0;
    std::uint64_t life = 0;  // by which the others know it; 0: they do not
    bool itself = false;     // it is the worker itself, so how the worker ends is decided
};
BOOST_DESCRIBE_STRUCT(WorkerDying, (), (round, rank, life, itself))
constexpr NumberRange range_of(Of<&WorkerDying::rank>) { return kRankRange; }

// The agent was sent a terminating signal; it forwards it to its workers without waiting for an answer. With a
// reason nobody has sent one, but the agent acts as if.
struct AgentSignalled {
    int round = 0;
    int signal = 0;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(AgentSignalled, (), (round, signal, reason))
constexpr NumberRange range_of(Of<&AgentSignalled::signal>) { return {1, kMaxSignal}; }
inline bool is_sound(const AgentSignalled& signalled) { return may_be_passed_on(signalled.signal); }

// No process of the node's workers is left after a stop.
struct WorkersGone {
    int round = 0;
    bool all_zero = false;    // every worker ended with 0
    bool progressed = false;  // the progress file changed during the round
    // The first worker of this node that failed by itself, now with what could be found out about it.
    std::optional<Failure> failure;
};
BOOST_DESCRIBE_STRUCT(WorkersGone, (), (round, all_zero, progressed, failure))

// How workers of the round ended; from an agent its own, from the coordinator everybody's. At most
// kMaxEndsInMessage in one message.
struct RankEnds {
    int round = 0;
    std::vector<RankEnd> ends;
};
BOOST_DESCRIBE_STRUCT(RankEnds, (), (round, ends))
constexpr std::size_t limit_of(Of<&RankEnds::ends>) { return kMaxEndsInMessage; }

// A signal that does not end the job. From an agent: it was sent one that the user wants passed on, and
// `signal` is what the workers shall get. From the coordinator, to all agents: send it to your workers now.
struct NoticeSignal {
    int round = 0;
    int signal = 0;
    bool requeue = false;  // the user wants kExitPreempted if all workers of the round end with 0 after it
};
BOOST_DESCRIBE_STRUCT(NoticeSignal, (), (round, signal, requeue))
constexpr NumberRange range_of(Of<&NoticeSignal::signal>) { return {1, kMaxSignal}; }
inline bool is_sound(const NoticeSignal& notice) { return may_be_passed_on(notice.signal); }

// From the coordinator the question whether the agent is there, from an agent the answer with the same number.
struct Heartbeat {
    std::uint64_t number = 0;
    std::uint64_t heard = 0;  // of the agent's answers: the last one that has arrived

    // From an agent that is excused, and was not asked: it wants to be.
    static constexpr std::uint64_t kAskMe = UINT64_MAX;
};
BOOST_DESCRIBE_STRUCT(Heartbeat, (), (number, heard))

// From an agent: its user suspends it (Ctrl-Z), its workers stand still, and it will say nothing until it goes on.
// From the coordinator: the agent may stand still now, or, to the others, the coordinator itself does so with its
// agent.
struct Suspended {};
BOOST_DESCRIBE_STRUCT(Suspended, (), ())

// A worker ended with 0, the first of this node in the round.
struct RankSucceeded {
    int round = 0;
    int rank = 0;
};
BOOST_DESCRIBE_STRUCT(RankSucceeded, (), (round, rank))
constexpr NumberRange range_of(Of<&RankSucceeded::rank>) { return kRankRange; }

// The answer to WhoRuns: how many of the node's workers have not ended, and which.
struct StillRunning {
    int round = 0;
    int count = 0;
    std::vector<RankRange> ranks;  // in order, at most kMaxRangesInMessage of them
    std::int64_t pid = 0;          // of the first one
};
BOOST_DESCRIBE_STRUCT(StillRunning, (), (round, count, ranks, pid))
constexpr std::size_t limit_of(Of<&StillRunning::ranks>) { return kMaxRangesInMessage; }

// What the program of --on-failure says to a JudgeFailure; only the host's own agent is asked.
struct Judgement {
    enum class Answer {
        none,     // nothing that can be understood: the coordinator decides by itself
        restart,  // though the coordinator might not
        stop,
        exclude,  // restart without that node
    };
    BOOST_DESCRIBE_NESTED_ENUM(Answer, none, restart, stop, exclude)

    int round = 0;
    Answer answer = Answer::none;
    int node = 0;  // by its number in the round
};
BOOST_DESCRIBE_STRUCT(Judgement, (), (round, answer, node))

// The agent gives the coordinator up, and stops its workers, for which they have their grace period. Without that word
// a connection that ends is that of an agent which is dead, and whose workers are killed.
struct LeaseOver {};
BOOST_DESCRIBE_STRUCT(LeaseOver, (), ())

// The agent has read Finish and closes.
struct Goodbye {};
BOOST_DESCRIBE_STRUCT(Goodbye, (), ())

// The agent takes this one for its coordinator, and nobody of this epoch or an older one but this one.
struct Follow {
    int epoch = 0;
};
BOOST_DESCRIBE_STRUCT(Follow, (), (epoch))

// To a coordinator that gathers: its job runs, and its coordinator is there; from it to its agents likewise.
struct JobMoved {
    std::string version;
    std::string run_id;
    int nnodes = 1;
    int min_nodes = 0;
    std::uint64_t command_digest = 0;
    std::string address;
    int port = 0;
};
BOOST_DESCRIBE_STRUCT(JobMoved, (), (version, run_id, nnodes, min_nodes, command_digest, address, port))
constexpr std::size_t limit_of(Of<&JobMoved::address>) { return kMaxHostText; }
constexpr NumberRange range_of(Of<&JobMoved::nnodes>) { return {1, kMaxNodes}; }
constexpr NumberRange range_of(Of<&JobMoved::min_nodes>) { return kNodeRange; }
constexpr NumberRange range_of(Of<&JobMoved::port>) { return {1, kPortRange.most}; }

}  // namespace ddprun::inline job
