// What agents and coordinators say to each other when one of these takes over; see control_message.hpp for the whole
// conversation. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/membership/member_list.hpp"

namespace ddprun::inline job {

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
