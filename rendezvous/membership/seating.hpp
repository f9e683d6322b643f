// The order of a job's nodes: their numbers, their places over the rounds, the ranks of their workers, and
// which hosts of a list are not there. Pure; the Roster asks.
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

// The numbers of nodes whose users hand none out. Pure; the Coordinator asks when all nodes are there.

struct NodeClaim {
    std::optional<int> number;  // that its user gave it
    std::string host;
    bool hosts = false;         // the coordinator
    std::optional<int> listed;  // its position in the job's list of hosts
};

// The numbers of nodes, which are given in the order of their arrival and whose own numbers are different and
// within that range. Who has a number keeps it; the others take what is left: first the node that hosts the
// coordinator, then those of a list of hosts in its order, then in the natural order of their host names,
// then as they came.
std::vector<int> number_nodes(const std::vector<NodeClaim>& nodes);

// Orders nodes that say something about their rank, as a switch's path: returns the indices of the texts in
// their natural order; who says nothing comes behind, and who says the same comes as it was given.
std::vector<std::size_t> order_ranks(const std::vector<std::string_view>& texts);

// Digits within a name count as numbers: node2 is before node10.
bool comes_before(std::string_view host, std::string_view other);

// Seating: the order of a job's nodes over its rounds. Pure; kept by the Coordinator.
//
// Every node has a place; those that take part in a round have the group ranks 0, 1, … in the order of their
// places. So who stays keeps his order, and who comes for one that was lost changes nobody's rank but that
// one's.
class Seating {
  public:
    // The places of the first round's nodes, as number_nodes gives them.
    std::vector<int> seat_all(const std::vector<NodeClaim>& nodes);

    // It had this place in the rounds of another coordinator.
    void keep(int place) { taken_.insert(place); }

    // A place for one that comes later: its own number; else the place that its host had; else the lowest
    // that another node has left; else one behind all others.
    int seat(const NodeClaim& node);

    // The node of this place, on this host, is there no longer.
    void vacate(int place, const std::string& host);

    // Whether a node has the place that this one has a claim to.
    bool is_taken(int place) const { return taken_.contains(place); }

  private:
    int choose(const NodeClaim& node) const;

    std::set<int> taken_;
    std::map<int, std::string> vacant_;  // and who had it
};

// Ranks from worker counts: running sums of the nodes' worker counts in group-rank order. Pure.

// NodeShare is what one node brings into a round.
struct NodeShare {
    int local_world_size = 1;
    std::string role = "default";
};

// Where one node's workers stand in the round.
struct NodeRanks {
    int base_rank = 0;       // global rank of its first worker
    int world_size = 0;      // workers of all nodes
    int role_base_rank = 0;  // rank of its first worker among the workers of its role
    int role_world_size = 0;

    bool operator==(const NodeRanks&) const = default;
};

// One entry for each node, in the order given (group rank).
std::vector<NodeRanks> map_ranks(const std::vector<NodeShare>& nodes);

// Which hosts of a job's list have no node yet. Pure; the Coordinator asks while it waits.

// ListPosition says where a node's host stands in the list of `size` hosts that the node knows; another
// position: in none.
struct ListPosition {
    int position = 0;
    int size = 0;
};

// Those of the list, in its order, that nobody has; nothing where that is not certain: one of those there
// knows another list, or none, or there are more than `most` that may still come.
std::vector<std::string> absent_hosts(const std::vector<std::string>& hosts,
                                      const std::vector<ListPosition>& there, int most);

}  // namespace job
}  // namespace ddprun
