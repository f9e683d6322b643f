#include "rendezvous/membership/seating.hpp"

#include <algorithm>
#include <numeric>

namespace ddprun {
inline namespace job {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The digits at the front, without leading zeros.
std::string_view take_number(std::string_view& text) {
    const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
    std::string_view digits(text.data(), static_cast<std::size_t>(end - text.begin()));
    text.remove_prefix(digits.size());
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    return digits;
}

// Compares two that are not at the same position.
bool is_listed_before(const NodeClaim& node, const NodeClaim& other) {
    return node.listed && (!other.listed || *node.listed < *other.listed);
}

}  // namespace

bool comes_before(std::string_view host, std::string_view other) {
    std::string_view left = host, right = other;
    while (!left.empty() && !right.empty()) {
        if (is_digit(left.front()) && is_digit(right.front())) {
            const std::string_view number = take_number(left), other_number = take_number(right);
            if (number.size() != other_number.size()) return number.size() < other_number.size();
            if (number != other_number) return number < other_number;
            continue;
        }
        if (left.front() != right.front()) return left.front() < right.front();
        left.remove_prefix(1);
        right.remove_prefix(1);
    }
    if (left.empty() != right.empty()) return left.empty();
    return host < other;  // node01 and node1
}

std::vector<std::size_t> order_ranks(const std::vector<std::string_view>& texts) {
    std::vector<std::size_t> order(texts.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&texts](std::size_t one, std::size_t other) {
        if (texts[one].empty() || texts[other].empty()) return !texts[one].empty() && texts[other].empty();
        return comes_before(texts[one], texts[other]);
    });
    return order;
}

std::vector<int> number_nodes(const std::vector<NodeClaim>& nodes) {
    std::set<int> free;
    for (int number = 0; number < static_cast<int>(nodes.size()); ++number) free.insert(free.end(), number);
    for (const NodeClaim& node : nodes) {
        if (node.number) free.erase(*node.number);
    }
    std::vector<std::size_t> order(nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&nodes](std::size_t one, std::size_t other) {
        if (nodes[one].hosts != nodes[other].hosts) return nodes[one].hosts;
        if (nodes[one].listed != nodes[other].listed) return is_listed_before(nodes[one], nodes[other]);
        return comes_before(nodes[one].host, nodes[other].host);
    });
    std::vector<int> numbers(nodes.size());
    for (const std::size_t place : order) {
        const NodeClaim& node = nodes[place];
        numbers[place] = node.number ? *node.number : free.extract(free.begin()).value();
    }
    return numbers;
}

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

std::vector<NodeRanks> map_ranks(const std::vector<NodeShare>& nodes) {
    std::vector<NodeRanks> ranks;
    std::map<std::string, int> role_sizes;
    int world_size = 0;
    for (const NodeShare& node : nodes) {
        int& role_size = role_sizes[node.role];
        ranks.push_back({.base_rank = world_size, .role_base_rank = role_size});
        world_size += node.local_world_size;
        role_size += node.local_world_size;
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        ranks[i].world_size = world_size;
        ranks[i].role_world_size = role_sizes[nodes[i].role];
    }
    return ranks;
}

std::vector<std::string> absent_hosts(const std::vector<std::string>& hosts,
                                      const std::vector<ListPosition>& there, int most) {
    const int size = static_cast<int>(hosts.size());
    std::vector<bool> taken(hosts.size());
    for (const ListPosition& node : there) {
        if (node.size != size) return {};
        if (node.position >= 0 && node.position < size) taken[static_cast<std::size_t>(node.position)] = true;
    }
    std::vector<std::string> absent;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
        if (!taken[i]) absent.push_back(hosts[i]);
    }
    return absent.size() > static_cast<std::size_t>(most) ? std::vector<std::string>() : absent;
}

}  // namespace job
}  // namespace ddprun
