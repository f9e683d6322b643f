#include "rendezvous/membership/seating.hpp"

#include <algorithm>

namespace ddprun::inline job {

std::vector<int> Seating::seat_all(const std::vector<NodeClaim>& nodes) {
    std::vector<int> places = number_nodes(nodes);
    taken_ = {places.begin(), places.end()};
    vacant_.clear();
    return places;
}

int Seating::seat(const NodeClaim& node) {
    const int place = choose(node);
    taken_.insert(place);
    vacant_.erase(place);
    return place;
}

int Seating::choose(const NodeClaim& node) const {
    if (node.number && !is_taken(*node.number)) return *node.number;
    const auto own = std::find_if(vacant_.begin(), vacant_.end(),
                                  [&node](const auto& left) { return left.second == node.host; });
    if (own != vacant_.end()) return own->first;
    if (!vacant_.empty()) return vacant_.begin()->first;
    return taken_.empty() ? 0 : *taken_.rbegin() + 1;
}

void Seating::vacate(int place, const std::string& host) {
    taken_.erase(place);
    vacant_[place] = host;
}

}  // namespace ddprun::inline job
