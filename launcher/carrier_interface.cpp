#include "launcher/carrier_interface.hpp"

#include <array>
#include <utility>

namespace ddprun {

std::optional<std::string> carrier_interface(const std::string& address,
                                             const std::vector<LocalAddress>& own) {
    for (const LocalAddress& local : own) {
        if (local.address == address && !local.is_loopback) return local.interface;
    }
    return std::nullopt;
}

std::vector<std::string> name_interface(Environment& environment, const std::string& interface) {
    // NCCL takes a name for the beginning of one unless "=" is in front.
    const std::array<std::pair<std::string, std::string>, 3> wanted{
        {{"GLOO_SOCKET_IFNAME", interface},
         {"NCCL_SOCKET_IFNAME", "=" + interface},
         {"TP_SOCKET_IFNAME", interface}}};
    std::vector<std::string> set;
    for (const auto& [name, value] : wanted) {
        if (environment.emplace(name, value).second) set.push_back(name);
    }
    return set;
}

}  // namespace ddprun
