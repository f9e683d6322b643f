// Seating: the order of a job's nodes over its rounds. Pure; kept by the Coordinator.
//
// Every node has a place; those that take part in a round have the group ranks 0, 1, … in the order of their places.
// So who stays keeps his order, and who comes for one that was lost changes nobody's rank but that one's.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/node_numbering.hpp"

namespace ddprun::inline job {

class Seating {
  public:
    // The places of the first round's nodes, as number_nodes gives them.
    std::vector<int> seat_all(const std::vector<NodeClaim>& nodes);

    // It had this place in the rounds of another coordinator.
    void keep(int place) { taken_.insert(place); }

    // A place for one that comes later: its own number; else the place that its host had; else the lowest that another
    // node has left; else one behind all others.
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

}  // namespace ddprun::inline job
