#include "launcher/doctor/meeting_address.hpp"

#include <algorithm>
#include <optional>

#include "rendezvous/net/local_addresses.hpp"

namespace ddprun::inline launch {
namespace {

// `usual` if that is one of them.
template <class Fits>
std::optional<std::string> address_that(const std::vector<LocalAddress>& own, const std::string& usual,
                                        Fits fits) {
    std::optional<std::string> first;
    for (const LocalAddress& one : own) {
        if (!fits(one)) continue;
        if (one.address == usual) return usual;
        if (!first) first = one.address;
    }
    return first;
}

}  // namespace

std::string meeting_address(const Environment& environment, const std::string& node_addr,
                            const std::vector<LocalAddress>& own) {
    if (const std::string* text = find_variable(environment, "DDPRUN_NET")) {
        const auto networks = parse_networks(*text);
        const auto found = address_that(own, node_addr, [&networks](const LocalAddress& one) {
            return networks &&
                   std::any_of(networks->begin(), networks->end(),
                               [&one](const Network& network) { return network.contains(one.address); });
        });
        if (found) return *found;
    }
    if (const std::string* interface = find_variable(environment, "GLOO_SOCKET_IFNAME")) {
        const auto found = address_that(
            own, node_addr, [interface](const LocalAddress& one) { return one.interface == *interface; });
        if (found) return *found;
    }
    if (!node_addr.empty()) return node_addr;
    return address_that(own, node_addr, [](const LocalAddress& one) { return !one.is_loopback; })
        .value_or("127.0.0.1");
}

}  // namespace ddprun::inline launch
