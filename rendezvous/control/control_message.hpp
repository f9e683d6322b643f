// ControlMessage: every message between agents and the coordinator. Plain values; control_wire.hpp gives
// their bytes.
//
// A conversation from an agent's side:
//   Hello → Welcome → (Waiting | Parked)*
//         → (MemberList? → RoundReady → (WorkersSucceeded | WorkerFailed | AgentSignalled)? → (Stop →
//         WorkersGone → Restarting? → (Waiting | Parked)*)?)+ → RankEnds* → Finish → Goodbye
// or Refused at any time before the first RoundReady, GivenUp at any time, and LeaseOver as an agent's last
// word. PeerRefused and NodesDiffer may come to node 0. Heartbeats go to and fro from the Welcome on (see
// heartbeat.hpp); node 0's own agent gets neither. RankEnds also go before WorkersSucceeded and WorkersGone.
// NoticeSignal goes both ways while a round runs. While the round runs, WorkerDying comes from an agent and
// PeerDying goes to the others, before what they may be the cause of. WorkerDying also comes directly behind
// WorkerFailed and Stop. RankSucceeded comes once in a round. WhoRuns may ask for StillRunning, and Remark go
// to node 0. A Question may come from any agent and goes to all others, and their Answers come back.
// JudgeFailure goes to the host's agent when all workers of a failed round are gone, and Judgement comes
// back.
//
// The conversation with a coordinator that would take over: Hello (with Following) → Welcome → (Lead →
// (RankEnds* → WorkersGone)? → Follow)+, and then as above from Stop on. SteppedDown ends it, and the agent
// looks for another coordinator. JobMoved is the only word of a caller that tells a coordinator which still
// gathers that its job runs elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/control/job_command.hpp"
#include "rendezvous/control/question.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/membership/member_list.hpp"

namespace ddprun {
inline namespace job {

// The messages from Hello to JobMoved are said by agents to the coordinator.

// kMaxEndsInMessage and its like limit the texts and lists below, so that every message fits its frame.
inline constexpr std::size_t kMaxEndsInMessage = 256;
inline constexpr std::size_t kMaxRangesInMessage = 64;

// kUnnumbered: the number of a node that its user gave none; the coordinator gives it one.
inline constexpr int kUnnumbered = -1;
// kUnlisted: the position of a host that is in no list of the job's hosts.
inline constexpr int kUnlisted = -1;
// kMaxAddresses: addresses that one machine tells. Further ones may be of networks that no other machine
// sees.
inline constexpr std::size_t kMaxAddresses = 64;
// kMaxRankOrderText: bytes of Hello::rank_order, the place of a node among switches, or in a list.
inline constexpr std::size_t kMaxRankOrderText = 512;
// kMaxUnfitText: bytes of Hello::unfit.
inline constexpr std::size_t kMaxUnfitText = 1024;

// Hello: the first message of an agent: what it is and what it believes the job to be.
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
    // nonce: drawn by the agent, once: several containers may have one name and one pid.
    std::uint64_t nonce = 0;
    bool wants_rank_ends = false;   // send RankEnds before Finish (for --result-file)
    JobCommand command;             // the same on all nodes that have workers of one role …
    bool allow_different = false;   // … unless this one allows others
    std::string reached_at;         // the address of node 0 by which this agent has reached it
    std::vector<NodeTrait> traits;  // of a job of several nodes: what should be alike on all
    std::int64_t grace_ms = 0;      // until its workers have ended once it has lost its coordinator
    // meeting_address, meeting_port: where this agent would host the coordinator if the present one is lost;
    // port 0: nowhere.
    std::string meeting_address;
    int meeting_port = 0;
    std::optional<Following> following;  // to a coordinator that would take over
    bool seeks_port = false;             // it calls several ports, and may well meet another job
    int list_position = kUnlisted;       // of its host in the list of hosts that it knows …
    int list_size = 0;                   // … of so many; 0: of none
    std::vector<std::string> addresses;  // of its machine, by which its workers may use the store
    // rank_order: the node's ranks are before those of nodes with a later text, as comes_before() has it;
    // empty: behind all nodes with a text.
    std::string rank_order;
    // unfit: what the agent has found wrong with its own node. The node takes no part, and the agent says so
    // for the others. Empty: nothing.
    std::string unfit;
};
BOOST_DESCRIBE_STRUCT(Hello, (),
                      (version, run_id, node_rank, nnodes, min_nodes, local_world_size, role, host, pid,
                       nonce, wants_rank_ends, command, allow_different, reached_at, traits, grace_ms,
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

// WorkersSucceeded: all workers of the node ended with 0.
struct WorkersSucceeded {
    int round = 0;
};
BOOST_DESCRIBE_STRUCT(WorkersSucceeded, (), (round))

// WorkerFailed: a worker of the node failed; the agent stops the others without waiting for an answer.
struct WorkerFailed {
    int round = 0;
    Failure failure;
};
BOOST_DESCRIBE_STRUCT(WorkerFailed, (), (round, failure))

// WorkerDying: a process of the worker, which others may be waiting for, ends or has ended (see LifeTable). A
// death is not a failure yet, but tells which worker died first when failures come. How a large process ended
// is known only long after workers that relied on it have failed. After the first failure WorkerDying says
// that the worker was ending by itself before its agent told it to.
struct WorkerDying {
    int round = 0;
    int rank = 0;
    std::uint64_t life = 0;  // by which the others know it; 0: they do not
    bool itself = false;     // it is the worker itself, so how the worker ends is decided
};
BOOST_DESCRIBE_STRUCT(WorkerDying, (), (round, rank, life, itself))
constexpr NumberRange range_of(Of<&WorkerDying::rank>) { return kRankRange; }

// AgentSignalled: the agent was sent a terminating signal, and forwards it to its workers without waiting for
// an answer. With a reason no signal was sent, but the agent acts as if.
struct AgentSignalled {
    int round = 0;
    int signal = 0;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(AgentSignalled, (), (round, signal, reason))
constexpr NumberRange range_of(Of<&AgentSignalled::signal>) { return {1, kMaxSignal}; }
inline bool is_sound(const AgentSignalled& signalled) { return may_be_passed_on(signalled.signal); }

// WorkersGone: no process of the node's workers is left after a stop.
struct WorkersGone {
    int round = 0;
    bool all_zero = false;    // every worker ended with 0
    bool progressed = false;  // the progress file changed during the round
    // failure: the first worker of this node that failed by itself, now with what could be found out about
    // it.
    std::optional<Failure> failure;
    // others, left: what the node's ranks did, see Failure, whether that tells something or not.
    std::vector<RanksDoing> others = {};
    std::vector<RanksDoing> left = {};
};
BOOST_DESCRIBE_STRUCT(WorkersGone, (), (round, all_zero, progressed, failure, others, left))
constexpr std::size_t limit_of(Of<&WorkersGone::others>) { return kMaxDoings; }
constexpr std::size_t limit_of(Of<&WorkersGone::left>) { return kMaxDoings; }

// RankEnds: how workers of the round ended; from an agent its own, from the coordinator those of all nodes.
// At most kMaxEndsInMessage in one message.
struct RankEnds {
    int round = 0;
    std::vector<RankEnd> ends;
};
BOOST_DESCRIBE_STRUCT(RankEnds, (), (round, ends))
constexpr std::size_t limit_of(Of<&RankEnds::ends>) { return kMaxEndsInMessage; }

// NoticeSignal: a signal that does not end the job. From an agent: it was sent a signal that the user wants
// passed on, and `signal` is what the workers shall get. From the coordinator, to all agents: send `signal`
// to your workers now.
struct NoticeSignal {
    int round = 0;
    int signal = 0;
    bool requeue = false;  // the user wants kExitPreempted if all workers of the round end with 0 after it
};
BOOST_DESCRIBE_STRUCT(NoticeSignal, (), (round, signal, requeue))
constexpr NumberRange range_of(Of<&NoticeSignal::signal>) { return {1, kMaxSignal}; }
inline bool is_sound(const NoticeSignal& notice) { return may_be_passed_on(notice.signal); }

// Heartbeat: from the coordinator the question whether the agent is there, from an agent the answer with the
// same number.
struct Heartbeat {
    std::uint64_t number = 0;
    std::uint64_t heard = 0;  // of the agent's answers: the last one that has arrived

    // kAskMe: from an agent that is excused, and was not asked: it wants to be.
    static constexpr std::uint64_t kAskMe = UINT64_MAX;
};
BOOST_DESCRIBE_STRUCT(Heartbeat, (), (number, heard))

// Suspended: from an agent: its user suspends it (Ctrl-Z), its workers stand still, and it will say nothing
// until it goes on. From the coordinator to that agent: it may stand still now. From the coordinator to the
// others: the coordinator itself stands still with its agent.
struct Suspended {};
BOOST_DESCRIBE_STRUCT(Suspended, (), ())

// RankSucceeded: a worker ended with 0, the first of this node in the round.
struct RankSucceeded {
    int round = 0;
    int rank = 0;
};
BOOST_DESCRIBE_STRUCT(RankSucceeded, (), (round, rank))
constexpr NumberRange range_of(Of<&RankSucceeded::rank>) { return kRankRange; }

// StillRunning: the answer to WhoRuns: how many of the node's workers have not ended, and which.
struct StillRunning {
    int round = 0;
    int count = 0;
    std::vector<RankRange> ranks;  // in order, at most kMaxRangesInMessage of them
    std::int64_t pid = 0;          // of the first one
};
BOOST_DESCRIBE_STRUCT(StillRunning, (), (round, count, ranks, pid))
constexpr std::size_t limit_of(Of<&StillRunning::ranks>) { return kMaxRangesInMessage; }

// Judgement is what the program of --on-failure says to a JudgeFailure; only the host's own agent is asked.
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

// LeaseOver: the agent gives the coordinator up, and stops its workers, which have their grace period. A
// connection that ends without that word is that of a dead agent, and its workers are killed.
struct LeaseOver {};
BOOST_DESCRIBE_STRUCT(LeaseOver, (), ())

// Goodbye: the agent has read Finish and closes.
struct Goodbye {};
BOOST_DESCRIBE_STRUCT(Goodbye, (), ())

// Follow: the agent takes this coordinator for its own, and no other of this epoch or an older one.
struct Follow {
    int epoch = 0;
};
BOOST_DESCRIBE_STRUCT(Follow, (), (epoch))

// JobMoved: the job runs already, and its coordinator is there. Said to a coordinator that still gathers,
// which passes it on to its agents.
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

// The messages from Welcome on are said by the coordinator to an agent.

// kMaxMissingListed and its like limit the texts and lists below, so that every message fits its frame.
inline constexpr std::size_t kMaxMissingListed = 64;
inline constexpr std::size_t kMaxPresentListed = 8;
inline constexpr std::size_t kMaxHostsNamed = 8;
inline constexpr std::size_t kMaxOthersListed = 20;
inline constexpr std::size_t kMaxUnknownListed = 8;
inline constexpr std::size_t kMaxDifferencesInMessage = 16;
inline constexpr std::size_t kMaxDifferenceText = 400;

// Welcome: the agent takes part.
struct Welcome {
    std::int64_t heartbeat_ms = 0;  // the limit of silence
    std::string seen_at = {};       // the address that its connection comes from, as this side sees it
};
BOOST_DESCRIBE_STRUCT(Welcome, (), (heartbeat_ms, seen_at))
constexpr std::size_t limit_of(Of<&Welcome::seen_at>) { return kMaxHostText; }
constexpr NumberRange range_of(Of<&Welcome::heartbeat_ms>) { return {1, kMillisecondRange.most}; }

// GivenUp: the agent takes part no longer, because it was silent for too long.
struct GivenUp {
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(GivenUp, (), (reason))

// Refused: the agent is not part of the job; `exit_code` is what it ends with. `other_job` is set where the
// agent has met a job of another id ("belongs to another job"). An agent that seeks its job's port then goes
// on with the next one.
struct Refused {
    std::string reason;
    int exit_code = 0;
    std::string other_job = {};
};
BOOST_DESCRIBE_STRUCT(Refused, (), (reason, exit_code, other_job))
constexpr NumberRange range_of(Of<&Refused::exit_code>) { return {1, kMaxExitCode}; }

// PeerRefused: to node 0's agent: another agent was refused.
struct PeerRefused {
    std::string host;
    std::int64_t pid = 0;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(PeerRefused, (), (host, pid, reason))
constexpr std::size_t limit_of(Of<&PeerRefused::host>) { return kMaxHostText; }

// NodesDiffer: to node 0's agent, before a round: in what its new nodes differ from others, one sentence
// each.
struct NodesDiffer {
    std::vector<std::string> differences;
};
BOOST_DESCRIBE_STRUCT(NodesDiffer, (), (differences))
constexpr std::size_t limit_of(Of<&NodesDiffer::differences>) { return kMaxDifferencesInMessage; }

// Waiting tells which nodes are there and which are not, while the job waits for its nodes. At most
// kMaxMissingListed numbers are listed, and none where a node has no number yet.
struct Waiting {
    int joined = 0;
    int expected = 0;  // at least
    std::vector<int> missing;
    std::vector<std::string> present;  // `node 0 (gpu00)`; empty where more than kMaxPresentListed have come
    int at_most = 0;                // nodes that may take part; as many as expected where none may be missing
    std::int64_t last_call_ms = 0;  // so long the others are waited for, once the least have come
    // missing_hosts: hosts of a list that have no node, the first kMaxHostsNamed of hosts_missing, where
    // nodes have no numbers and less than expected have come. Where nodes have numbers: the hosts of the
    // first of `missing`. Empty where no list is known.
    std::vector<std::string> missing_hosts;
    int hosts_missing = 0;
};
BOOST_DESCRIBE_STRUCT(Waiting, (),
                      (joined, expected, missing, present, at_most, last_call_ms, missing_hosts,
                       hosts_missing))
constexpr std::size_t limit_of(Of<&Waiting::missing>) { return kMaxMissingListed; }
constexpr std::size_t limit_of(Of<&Waiting::present>) { return kMaxPresentListed; }
constexpr std::size_t limit_of(Of<&Waiting::missing_hosts>) { return kMaxHostsNamed; }
constexpr NumberRange range_of(Of<&Waiting::last_call_ms>) { return kMillisecondRange; }

// Parked: the job runs, or is about to, without this node, which waits for a place.
struct Parked {
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(Parked, (), (reason))

// RoundReady: the round begins; what one agent needs to start its workers.
struct RoundReady {
    int round = 0;
    std::string job_id;             // unique for each launch, on all nodes the same
    std::int64_t start_unix_s = 0;  // when the job was first started; for people, never compared
    int group_rank = 0;
    int group_world_size = 1;
    int place = 0;      // of the node, see Seating
    int base_rank = 0;  // global rank of the node's first worker
    int world_size = 1;
    int role_base_rank = 0;
    int role_world_size = 1;
    int restart_count = 0;
    int max_restarts = 0;
    int resizes = 0;             // rounds that began because nodes came or went
    std::string restart_reason;  // of the last restart or resize; empty in the first round
    int coordinator_rank = 0;    // group rank of the node that hosts the coordinator
    std::string reached_at;      // of that node: its address as another one has reached it; empty if none has
    bool through_doors = false;  // workers reach the store through their own agent, as the host's user chose
};
BOOST_DESCRIBE_STRUCT(RoundReady, (),
                      (round, job_id, start_unix_s, group_rank, group_world_size, place, base_rank,
                       world_size, role_base_rank, role_world_size, restart_count, max_restarts, resizes,
                       restart_reason, coordinator_rank, reached_at, through_doors))
constexpr std::size_t limit_of(Of<&RoundReady::restart_reason>) { return kMaxReasonText; }
constexpr std::size_t limit_of(Of<&RoundReady::reached_at>) { return kMaxHostText; }
constexpr NumberRange range_of(Of<&RoundReady::start_unix_s>) { return kSecondRange; }
constexpr NumberRange range_of(Of<&RoundReady::group_world_size>) { return {1, kMaxNodes}; }
constexpr NumberRange range_of(Of<&RoundReady::world_size>) { return {1, kMaxRanks}; }

// PeerDying: the process of this life, on another node, ends or has ended; tell your workers.
struct PeerDying {
    int round = 0;
    std::uint64_t life = 0;
};
BOOST_DESCRIBE_STRUCT(PeerDying, (), (round, life))

// WhoRuns: say which of your workers have not ended.
struct WhoRuns {
    int round = 0;
};
BOOST_DESCRIBE_STRUCT(WhoRuns, (), (round))

// Remark: to node 0's agent: a line for its user.
struct Remark {
    std::string text;
};
BOOST_DESCRIBE_STRUCT(Remark, (), (text))

// JudgeFailure: to the agent that hosts: what shall follow this failure of the round?
struct JudgeFailure {
    int round = 0;
    Failure failure;
};
BOOST_DESCRIBE_STRUCT(JudgeFailure, (), (round, failure))

// Stop: stop the node's workers now; `cause` is the job's first failure, as far as is known.
struct Stop {
    int round = 0;
    Failure cause;
    // is_awaited: others may go on without the nodes that are told this, and wait for their workers no longer
    // than for those of a lost node.
    bool is_awaited = false;
};
BOOST_DESCRIBE_STRUCT(Stop, (), (round, cause, is_awaited))

// Restarting: all nodes' workers are gone, and the next round begins after `delay_ms`.
struct Restarting {
    Failure cause;
    int restart = 0;  // the first is 1
    int max_restarts = 0;
    std::int64_t delay_ms = 0;
    int resize = 0;  // the first is 1; 0: this is a restart
    int nodes = 0;   // that are there for the next round, as far as is known
};
BOOST_DESCRIBE_STRUCT(Restarting, (), (cause, restart, max_restarts, delay_ms, resize, nodes))
constexpr NumberRange range_of(Of<&Restarting::delay_ms>) { return kMillisecondRange; }

// Finish: the job is over on all nodes.
struct Finish {
    int exit_code = 0;
    std::optional<Failure> cause;
    std::string message;          // why no restart followed, where one might have
    std::vector<RankEnd> others;  // besides the first failure, worst first, at most kMaxOthersListed
    int failed_too = 0;           // how many of each manner there are, besides the first failure
    int stopped = 0;
    int lost = 0;
    int succeeded = 0;
    std::vector<Restart> restarts;  // the last kMaxRestartsListed
    std::vector<Restart> resizes;   // the same of rounds that ended because nodes came or went
    // unknown_nodes: nodes that could not be asked whether anything of the job is left there: `node 1
    // (gpu07)`, at most kMaxUnknownListed of them.
    std::vector<std::string> unknown_nodes;
    int unknown_node_count = 0;
};
BOOST_DESCRIBE_STRUCT(Finish, (),
                      (exit_code, cause, message, others, failed_too, stopped, lost, succeeded, restarts,
                       resizes, unknown_nodes, unknown_node_count))
constexpr std::size_t limit_of(Of<&Finish::others>) { return kMaxOthersListed; }
constexpr std::size_t limit_of(Of<&Finish::restarts>) { return kMaxRestartsListed; }
constexpr std::size_t limit_of(Of<&Finish::resizes>) { return kMaxRestartsListed; }
constexpr std::size_t limit_of(Of<&Finish::unknown_nodes>) { return kMaxUnknownListed; }
constexpr NumberRange range_of(Of<&Finish::exit_code>) { return kExitCodeRange; }
inline bool is_sound(const Finish& finish) { return !finish.cause || finish.exit_code != 0; }

// Lead: a coordinator that would take over asks the agent to follow it.
struct Lead {
    int epoch = 0;
};
BOOST_DESCRIBE_STRUCT(Lead, (), (epoch))

// SteppedDown: the sender leads the job no longer, or did not come to lead it.
struct SteppedDown {
    std::string reason;
    int epoch = 0;  // of the MemberList that `round` and `gone` are of
    int round = 0;
    std::vector<int> gone;  // members that have left the job, this one's node among them
};
BOOST_DESCRIBE_STRUCT(SteppedDown, (), (reason, epoch, round, gone))
constexpr std::size_t limit_of(Of<&SteppedDown::gone>) { return kMaxMembersListed; }
constexpr NumberRange range_of(Of<&SteppedDown::gone>) { return kNodeRange; }

// MemberGone: the agent of this member is dead.
struct MemberGone {
    int epoch = 0;  // of the MemberList that it is of
    int round = 0;
    int group_rank = 0;
};
BOOST_DESCRIBE_STRUCT(MemberGone, (), (epoch, round, group_rank))
constexpr NumberRange range_of(Of<&MemberGone::group_rank>) { return kNodeRange; }

using ControlMessage =
    std::variant<Hello, WorkersSucceeded, WorkerFailed, WorkerDying, AgentSignalled, WorkersGone, RankEnds,
                 NoticeSignal, Heartbeat, Suspended, RankSucceeded, StillRunning, Judgement, LeaseOver,
                 Goodbye, Follow, JobMoved, Welcome, Lead, SteppedDown, MemberGone, MemberList, GivenUp,
                 Refused, PeerRefused, NodesDiffer, Waiting, Parked, RoundReady, PeerDying, WhoRuns, Remark,
                 JudgeFailure, Stop, Restarting, Finish, Question, Answer>;

}  // namespace job
}  // namespace ddprun
