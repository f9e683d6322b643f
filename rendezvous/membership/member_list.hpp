// MemberList: the members of a round, as each of its agents is told: what they need to go on without the
// coordinator. Plain values.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/job/failure.hpp"

namespace ddprun {
inline namespace job {

// kDefaultJoinTimeout: how long a job waits for its nodes, unless its user says otherwise (--join-timeout).
inline constexpr std::chrono::milliseconds kDefaultJoinTimeout{900'000};

// kMaxMembersListed: how many members are listed, the first ones. With this limit the bytes to all agents
// together grow in proportion to their number.
inline constexpr std::size_t kMaxMembersListed = 64;
inline constexpr std::size_t kMaxRestartsListed = 100;
// kMaxRestartsCarried: restarts that another coordinator is told of, the last ones.
inline constexpr std::size_t kMaxRestartsCarried = 16;
// kMaxCauseCarried: bytes of each text of a cause that an agent carries to another coordinator, so that its
// Hello is short enough to be heard.
inline constexpr std::size_t kMaxCauseCarried = 512;

struct Member {
    int group_rank = 0;
    int place = 0;  // see Seating
    std::string host;
    std::int64_t pid = 0;     // of its agent, …
    std::uint64_t nonce = 0;  // … as is this, from Hello
    int local_world_size = 1;
    std::string address;  // where the member would host the coordinator
    int port = 0;         // 0: nowhere
};
BOOST_DESCRIBE_STRUCT(Member, (), (group_rank, place, host, pid, nonce, local_world_size, address, port))
constexpr std::size_t limit_of(Of<&Member::host>) { return kMaxHostText; }
constexpr std::size_t limit_of(Of<&Member::address>) { return kMaxHostText; }
constexpr NumberRange range_of(Of<&Member::group_rank>) { return kNodeRange; }
constexpr NumberRange range_of(Of<&Member::local_world_size>) { return {0, kMaxWorkersPerNode}; }
constexpr NumberRange range_of(Of<&Member::port>) { return kPortRange; }

struct MemberList {
    int epoch = 0;  // of the coordinator: each one that takes over has a higher epoch
    int round = 0;
    std::string job_id;
    std::int64_t start_unix_s = 0;  // of the job
    int size = 1;                   // of the round, in nodes
    int host_rank = 0;              // the node that hosts the coordinator
    std::int64_t heartbeat_ms = 0;  // the limit of silence
    std::int64_t grace_ms = 0;      // the longest of all nodes
    std::vector<Member> members;    // the host first, then by group rank
    // restart_count: how many restarts there were before this round; with resizes and the two lists for a
    // coordinator that may have to go on from there.
    int restart_count = 0;
    int resizes = 0;
    std::vector<Restart> restarts;
    std::vector<Restart> resize_list;

    // Returns what orders lists: the list with the greater version came later.
    std::pair<int, int> version() const { return {epoch, round}; }
};
BOOST_DESCRIBE_STRUCT(MemberList, (),
                      (epoch, round, job_id, start_unix_s, size, host_rank, heartbeat_ms, grace_ms, members,
                       restart_count, resizes, restarts, resize_list))
constexpr std::size_t limit_of(Of<&MemberList::members>) { return kMaxMembersListed; }
constexpr std::size_t limit_of(Of<&MemberList::restarts>) { return kMaxRestartsCarried; }
constexpr std::size_t limit_of(Of<&MemberList::resize_list>) { return kMaxRestartsCarried; }
constexpr NumberRange range_of(Of<&MemberList::start_unix_s>) { return kSecondRange; }
constexpr NumberRange range_of(Of<&MemberList::size>) { return {1, kMaxNodes}; }
constexpr NumberRange range_of(Of<&MemberList::host_rank>) { return kNodeRange; }
constexpr NumberRange range_of(Of<&MemberList::heartbeat_ms>) { return kMillisecondRange; }
constexpr NumberRange range_of(Of<&MemberList::grace_ms>) { return kMillisecondRange; }

// Returns those restarts of a long list that another coordinator is told of.
inline std::vector<Restart> carried(const std::vector<Restart>& list) {
    const auto count = std::min(list.size(), kMaxRestartsCarried);
    return {list.end() - static_cast<std::ptrdiff_t>(count), list.end()};
}

// Returns whether the host and all members that are listed are of the round.
inline bool is_sound(const MemberList& list) {
    return list.host_rank < list.size &&
           std::all_of(list.members.begin(), list.members.end(),
                       [&list](const Member& member) { return member.group_rank < list.size; });
}

// Following: what an agent that has lost the coordinator says to the one that it would follow.
struct Following {
    MemberList last;     // the newest list that the agent knows
    int group_rank = 0;  // its own, there
    int base_rank = 0;
    int place = 0;
    std::optional<int> claim;  // see JobNode
    int followed = 0;          // the highest epoch of which the agent has followed a coordinator
    bool has_workers = false;  // of that round
    // is_decided: the round had ended everywhere, and another one was announced, with these counts of
    // restarts and resizes.
    bool is_decided = false;
    int restart_count = 0;
    int resizes = 0;
    std::optional<Failure> cause;  // of the round's end, as far as it was told
    std::vector<int> dead;         // members with agents known to be dead: their own machine said so
};
BOOST_DESCRIBE_STRUCT(Following, (),
                      (last, group_rank, base_rank, place, claim, followed, has_workers, is_decided,
                       restart_count, resizes, cause, dead))
constexpr std::size_t limit_of(Of<&Following::dead>) { return kMaxMembersListed; }
constexpr NumberRange range_of(Of<&Following::group_rank>) { return kNodeRange; }
constexpr NumberRange range_of(Of<&Following::base_rank>) { return kRankRange; }
constexpr NumberRange range_of(Of<&Following::claim>) { return kNodeRange; }
constexpr NumberRange range_of(Of<&Following::dead>) { return kNodeRange; }

inline bool is_sound(const Following& following) {
    const int size = following.last.size;
    return following.group_rank < size && std::all_of(following.dead.begin(), following.dead.end(),
                                                      [size](int member) { return member < size; });
}

}  // namespace job
}  // namespace ddprun
