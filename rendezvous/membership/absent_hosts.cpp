#include "rendezvous/membership/absent_hosts.hpp"

#include <cstddef>

namespace ddprun::inline job {

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

}  // namespace ddprun::inline job
