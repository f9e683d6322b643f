// What the coordinator says to an agent. Plain values; see control_message.hpp for the conversation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/job/exit_code.hpp"
#include "rendezvous/job/failure.hpp"
#include "rendezvous/job/rank_end.hpp"
#include "rendezvous/membership/member_list.hpp"

namespace ddprun::inline job {

// Limits of the texts and lists below, so that every message fits its frame.
inline constexpr std::size_t kMaxMissingListed = 64;
inline constexpr std::size_t kMaxPresentListed = 8;
inline constexpr std::size_t kMaxHostsNamed = 8;
inline constexpr std::size_t kMaxOthersListed = 20;
inline constexpr std::size_t kMaxUnknownListed = 8;
inline constexpr std::size_t kMaxDifferencesInMessage = 16;
inline constexpr std::size_t kMaxDifferenceText = 400;

// The agent takes part.
struct Welcome {
    std::int64_t heartbeat_ms = 0;  // the limit of silence
    std::string seen_at = {};       // the address that its connection comes from, as this side sees it
};
BOOST_DESCRIBE_STRUCT(Welcome, (), (heartbeat_ms, seen_at))
constexpr std::size_t limit_of(Of<&Welcome::seen_at>) { return kMaxHostText; }
constexpr NumberRange range_of(Of<&Welcome::heartbeat_ms>) { return {1, kMillisecondRange.most}; }

// The agent does not take part any more: it was silent for too long.
struct GivenUp {
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(GivenUp, (), (reason))

// The agent is not part of the job; `exit_code` is what it ends with. `other_job`: it has met one of another id, which is
// said here ("belongs to another job"); who seeks its job's port goes on with the next one.
struct Refused {
    std::string reason;
    int exit_code = 0;
    std::string other_job = {};
};
BOOST_DESCRIBE_STRUCT(Refused, (), (reason, exit_code, other_job))
constexpr NumberRange range_of(Of<&Refused::exit_code>) { return {1, kMaxExitCode}; }

// To node 0's agent: somebody else was refused.
struct PeerRefused {
    std::string host;
    std::int64_t pid = 0;
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(PeerRefused, (), (host, pid, reason))
constexpr std::size_t limit_of(Of<&PeerRefused::host>) { return kMaxHostText; }

// To node 0's agent, before a round: in what its nodes, those that are new, differ; one sentence each.
struct NodesDiffer {
    std::vector<std::string> differences;
};
BOOST_DESCRIBE_STRUCT(NodesDiffer, (), (differences))
constexpr std::size_t limit_of(Of<&NodesDiffer::differences>) { return kMaxDifferencesInMessage; }

// Who is there and who is not, while the job waits for its nodes. At most kMaxMissingListed numbers are
// listed, and none where a node has no number yet.
struct Waiting {
    int joined = 0;
    int expected = 0;  // at least
    std::vector<int> missing;
    std::vector<std::string> present;  // `node 0 (gpu00)`; empty where more than kMaxPresentListed have come
    int at_most = 0;                // nodes that may take part; as many as expected where none may be missing
    std::int64_t last_call_ms = 0;  // so long the others are waited for, once the least have come
    // Where nodes have no numbers and less than expected have come: hosts of a list that have no node, the first
    // kMaxHostsNamed of so many. Where they have, the hosts of the first of `missing`. Empty where no list is known.
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

// The job runs, or is about to, without this node, which waits for a place.
struct Parked {
    std::string reason;
};
BOOST_DESCRIBE_STRUCT(Parked, (), (reason))

// The round begins: what one agent needs to start its workers.
struct RoundReady {
    int round = 0;
    std::string job_id;             // unique for each launch, on all nodes the same
    std::int64_t start_unix_s = 0;  // when the job was first started, likewise; for people, never compared
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
    std::string reached_at;      // to that node: its address as another one has reached it; empty if none has
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

// The process of this life, on another node, ends or has ended; tell your workers.
struct PeerDying {
    int round = 0;
    std::uint64_t life = 0;
};
BOOST_DESCRIBE_STRUCT(PeerDying, (), (round, life))

// Say which of your workers have not ended.
struct WhoRuns {
    int round = 0;
};
BOOST_DESCRIBE_STRUCT(WhoRuns, (), (round))

// To node 0's agent: a line for its user.
struct Remark {
    std::string text;
};
BOOST_DESCRIBE_STRUCT(Remark, (), (text))

// To the agent that hosts: what shall follow this failure of the round?
struct JudgeFailure {
    int round = 0;
    Failure failure;
};
BOOST_DESCRIBE_STRUCT(JudgeFailure, (), (round, failure))

// Stop the node's workers now; `cause` is the job's first failure, as far as is known.
struct Stop {
    int round = 0;
    Failure cause;
};
BOOST_DESCRIBE_STRUCT(Stop, (), (round, cause))

// All nodes' workers are gone, and the next round begins after `delay_ms`.
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

// The job is over on all nodes.
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
    std::vector<Restart> resizes;   // likewise: rounds that ended because nodes came or went
    // Nodes that could not be asked whether something of the job is left there: `node 1 (gpu07)`, at most
    // kMaxUnknownListed of them.
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

// One that would take over asks the agent to follow it.
struct Lead {
    int epoch = 0;
};
BOOST_DESCRIBE_STRUCT(Lead, (), (epoch))

// This one is no coordinator any more, or does not become one.
struct Abdicated {
    std::string reason;
    int epoch = 0;  // of the MemberList that the next are of
    int round = 0;
    std::vector<int> gone;  // members that have left the job, this one's node among them
};
BOOST_DESCRIBE_STRUCT(Abdicated, (), (reason, epoch, round, gone))
constexpr std::size_t limit_of(Of<&Abdicated::gone>) { return kMaxMembersListed; }
constexpr NumberRange range_of(Of<&Abdicated::gone>) { return kNodeRange; }

// The agent of this member is dead.
struct MemberGone {
    int epoch = 0;  // of the MemberList that it is of
    int round = 0;
    int group_rank = 0;
};
BOOST_DESCRIBE_STRUCT(MemberGone, (), (epoch, round, group_rank))
constexpr NumberRange range_of(Of<&MemberGone::group_rank>) { return kNodeRange; }

}  // namespace ddprun::inline job
