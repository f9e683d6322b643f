// Seating and map_ranks() order a job's nodes: their numbers, their places over the rounds, the ranks of
// their workers, and which hosts of a list are missing. Pure; the Roster asks.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace job {

// NodeClaim: what a node's number is chosen by.
struct NodeClaim {
    std::optional<int> number;  // that the node's user gave it
    std::string host;
    bool hosts = false;         // the coordinator
    std::optional<int> listed;  // its position in the job's list of hosts
};

// Returns the nodes' numbers. `nodes` are given in the order of their arrival; their own numbers differ and
// are below their count. A node that has a number keeps it. The others take what is left: first the node that
// hosts the coordinator, then those of a list of hosts in its order. The rest follow by host name in natural
// order, then in the order of arrival.
std::vector<int> number_nodes(const std::vector<NodeClaim>& nodes);

// Returns the indices of texts about ranks, such as a switch's path, in their natural order. Empty texts come
// last, and equal texts keep the order given.
std::vector<std::size_t> order_ranks(const std::vector<std::string_view>& texts);

// Compares names with the digits in them as numbers: node2 is before node10.
bool comes_before(std::string_view host, std::string_view other);

// Seating: the order of a job's nodes over its rounds. Pure; kept by the Coordinator.
//
// Every node has a place. Nodes that take part in a round have the group ranks 0, 1, … in the order of their
// places. A node that stays keeps its order, and a node that replaces a lost one changes no other node's
// rank.
class Seating {
  public:
    // Returns the places of the first round's nodes, as number_nodes gives them.
    std::vector<int> seat_all(const std::vector<NodeClaim>& nodes);

    // Keeps a place that a node had in the rounds of another coordinator.
    void keep(int place) { taken_.insert(place); }

    // Returns a place for a node that comes later: its own number, else the place that its host had. Failing
    // both, the lowest place that another node has left, else one behind all others.
    int seat(const NodeClaim& node);

    // Frees this place: its node, on this host, is there no longer.
    void vacate(int place, const std::string& host);

    // Returns whether a node has this place.
    bool is_taken(int place) const { return taken_.contains(place); }

  private:
    int choose(const NodeClaim& node) const;

    std::set<int> taken_;
    std::map<int, std::string> vacant_;  // with the host that had it
};

// NodeShare: what one node brings into a round.
struct NodeShare {
    int local_world_size = 1;
    std::string role = "default";
};

// NodeRanks: where one node's workers stand in the round.
struct NodeRanks {
    int base_rank = 0;       // global rank of its first worker
    int world_size = 0;      // workers of all nodes
    int role_base_rank = 0;  // rank of its first worker among the workers of its role
    int role_world_size = 0;

    bool operator==(const NodeRanks&) const = default;
};

// Returns one entry for each node, in the order given (group rank): running sums of the nodes' worker counts.
// Pure.
std::vector<NodeRanks> map_ranks(const std::vector<NodeShare>& nodes);

// ListPosition: where a node's host stands in the list of `size` hosts that the node knows. A position
// outside the list: the node's host is in no list.
struct ListPosition {
    int position = 0;
    int size = 0;
};

// Returns the hosts of the list, in its order, that have no node yet. Nothing where that is not certain: a
// node knows another list, or none, or more hosts are missing than the `most` that may still come.
std::vector<std::string> absent_hosts(const std::vector<std::string>& hosts,
                                      const std::vector<ListPosition>& there, int most);

}  // namespace job
}  // namespace ddprun
