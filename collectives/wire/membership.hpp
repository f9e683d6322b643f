// Membership: who the ranks of one communicator are and where they listen; the same table on every rank.
// Pure.
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
    Endpoint endpoint;  // numeric address
    std::string host;   // identity of the machine or container: equal for ranks on one host
    int sockets = 1;    // connections for each direction and neighbour that it wishes for, 1 to kMaxLanes
    std::uint64_t life = 0;    // by which its agent tells of its death (death_news.hpp); 0: by none
    bool own_numbers = false;  // its launcher has given it another rank, or another number of ranks
    std::string numbers = {};  // in which memory has numbers, System V's, that it can map; empty: nowhere
    // What several containers of one host are together (join_containers); nobody tells it. Empty: its host is
    // all.
    std::string joined = {};

    // Equal for ranks that may share memory.
    const std::string& shares() const noexcept { return joined.empty() ? host : joined; }

    bool operator==(const Member&) const = default;
};

// The store carries it like this: `address:port host sockets life numbers`, without blanks in the host and
// the numbers, the latter only where there are some, and ` own` where it has own numbers; the life is 16
// hexadecimal digits.
std::string to_string(const Member& member);
std::optional<Member> parse_member(std::string_view text);

struct Membership {
    int rank = 0;
    std::uint32_t round = 0;
    std::uint32_t communicator = 0;
    Nonce nonce{};
    std::vector<Member> members;                       // by rank
    std::optional<SecretKey> mesh_key = std::nullopt;  // that its ranks prove to each other that they have
    bool own_numbers = false;  // a launcher has given some rank others, see kOwnNumbers

    int world_size() const noexcept { return static_cast<int>(members.size()); }
    int right() const noexcept { return (rank + 1) % world_size(); }
    int left() const noexcept { return (rank + world_size() - 1) % world_size(); }
    // This rank's number among the ranks of its host, and how many they are; containers count by themselves.
    int local_rank() const;
    int local_world_size() const;
    // Data connections for each direction between two ranks: the fewest that any rank wishes for.
    int lanes() const;
    // Of the same machine: those that say they are on another host, but listen on the same address, share it,
    // too.
    bool is_within_machine(int peer) const {
        const Member& self = member(rank);
        return member(peer).shares() == self.shares() || member(peer).endpoint.host == self.endpoint.host;
    }
    // Whether the ranks of this one's host see each other's processes: in containers that are one host the
    // number of one may be that of any process in another.
    bool sees_processes() const { return member(rank).joined.empty(); }
    const Member& member(int peer) const { return members[static_cast<std::size_t>(peer)]; }
};

// Rank 0 puts this into the store for everybody: the nonce in hex, then one member a line, by rank.
std::string table_text(const Nonce& nonce, const std::vector<Member>& members);
// Nothing unless the text is a table of `world_size` members; rank, round and communicator stay 0.
std::optional<Membership> parse_table(std::string_view text, int world_size);

// RankGroup: some ranks of a communicator in an order of their own, for algorithms among them. Pure.
//
// How a communicator over several hosts is cut: the ranks of one host share memory; and the ranks that have
// the same place on their hosts, one on each, do the same part of the work between hosts. The latter needs
// the same number of ranks on every host.
struct RankGroup {
    std::vector<int> ranks;  // of the communicator
    int index = 0;           // this rank's place among them

    int size() const noexcept { return static_cast<int>(ranks.size()); }
    int at(int place) const noexcept { return ranks[static_cast<std::size_t>(place)]; }
    int right() const noexcept { return at((index + 1) % size()); }
    int left() const noexcept { return at((index + size() - 1) % size()); }

    bool operator==(const RankGroup&) const = default;
};

// The ranks of each host; hosts in the order of their first ranks.
std::vector<std::vector<int>> ranks_by_host(const Membership& membership);

RankGroup all_ranks(const Membership& membership);

// This rank's host: its ranks in their order.
RankGroup ranks_of_host(const Membership& membership);

// The ranks that have this rank's place on their hosts, ordered by the hosts' first ranks. Nothing if the
// hosts have different numbers of ranks; the same answer on every rank.
std::optional<RankGroup> ranks_across_hosts(const Membership& membership);

}  // namespace detail
}  // namespace ddprun
