// Membership: the ranks of one communicator and where they listen; the same table on every rank. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/wire/frame.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/system/secret_key.hpp"

namespace ddprun {
inline namespace detail {

struct Member {
    Endpoint endpoint;         // numeric address
    std::string host;          // identity of the machine or container: equal for ranks on one host
    int sockets = 1;           // wished connections for each direction and neighbour, 1 to kMaxLanes
    std::uint64_t life = 0;    // the agent's name for the rank in news of deaths (death_news.hpp); 0: none
    bool own_numbers = false;  // the rank's launcher has given it another rank, or another number of ranks
    std::string numbers = {};  // the space of System V memory that it can map (memory_numbers()); empty: none
    // joined: what several containers of one host are together (join_containers); not sent. Empty: `host`
    // says all.
    std::string joined = {};

    // Returns a text that is equal for ranks that may share memory.
    const std::string& shares() const noexcept { return joined.empty() ? host : joined; }

    bool operator==(const Member&) const = default;
};

// Returns the member as the store carries it: `address:port host sockets life numbers`, without blanks in the
// host and the numbers. The life is 16 hexadecimal digits; the numbers are there only where there are some.
// The word `own` ends the text where own_numbers is set.
std::string to_string(const Member& member);
std::optional<Member> parse_member(std::string_view text);

struct Membership {
    int rank = 0;
    std::uint32_t round = 0;
    std::uint32_t communicator = 0;
    Nonce nonce{};
    std::vector<Member> members;                       // by rank
    std::optional<SecretKey> mesh_key = std::nullopt;  // the key that the ranks prove to each other
    bool own_numbers = false;  // a launcher has given some rank another number, see kOwnNumbers

    int world_size() const noexcept { return static_cast<int>(members.size()); }
    int right() const noexcept { return (rank + 1) % world_size(); }
    int left() const noexcept { return (rank + world_size() - 1) % world_size(); }
    // Returns this rank's number among the ranks of its host; local_world_size() is how many those are.
    // Containers count by themselves.
    int local_rank() const;
    int local_world_size() const;
    // Returns the data connections for each direction between two ranks: the fewest that any rank wishes for.
    int lanes() const;
    // Returns true for ranks of the same machine, also for a rank that says it is on another host, but
    // listens on the same address.
    bool is_within_machine(int peer) const {
        const Member& self = member(rank);
        return member(peer).shares() == self.shares() || member(peer).endpoint.host == self.endpoint.host;
    }
    // Returns whether the ranks of this rank's host see each other's processes. In containers that are one
    // host, the process number of one may be that of any process in another.
    bool sees_processes() const { return member(rank).joined.empty(); }
    const Member& member(int peer) const { return members[static_cast<std::size_t>(peer)]; }
};

// Returns the text that rank 0 puts into the store: the nonce in hex, then one member a line, by rank.
std::string table_text(const Nonce& nonce, const std::vector<Member>& members);
// Returns nothing unless the text is a table of `world_size` members; rank, round and communicator stay 0.
std::optional<Membership> parse_table(std::string_view text, int world_size);

// RankGroup: some ranks of a communicator in an order of their own, for algorithms among them. Pure.
//
// RankGroups cut a communicator over several hosts. The ranks of one host are a group that shares memory.
// Ranks that have the same place on their hosts, one on each, are a group that does the same part of the work
// between hosts. The groups need the same number of ranks on every host.
struct RankGroup {
    std::vector<int> ranks;  // of the communicator
    int index = 0;           // this rank's place among them

    int size() const noexcept { return static_cast<int>(ranks.size()); }
    int at(int place) const noexcept { return ranks[static_cast<std::size_t>(place)]; }
    int right() const noexcept { return at((index + 1) % size()); }
    int left() const noexcept { return at((index + size() - 1) % size()); }

    bool operator==(const RankGroup&) const = default;
};

// Returns the ranks of each host; hosts in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_host(const Membership& membership);

RankGroup all_ranks(const Membership& membership);

// Returns the ranks of this rank's host, in their order.
RankGroup ranks_of_host(const Membership& membership);

// Returns the ranks that have this rank's place on their hosts, ordered by the hosts' first ranks. Nothing if
// the hosts have different numbers of ranks; the same answer on every rank.
std::optional<RankGroup> ranks_across_hosts(const Membership& membership);

}  // namespace detail
}  // namespace ddprun
