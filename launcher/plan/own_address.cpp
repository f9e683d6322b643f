#include "launcher/plan/own_address.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/net/listen_plan.hpp"
#include "rendezvous/net/network.hpp"

namespace ddprun::inline launch {
namespace {

std::vector<Network> networks_of(const std::string& text) {
    return text.empty() ? std::vector<Network>{} : parse_networks(text).value_or(std::vector<Network>{});
}

OwnAddress own_address_at(const LocalAddress& local, std::string source) {
    return {local.address, local.is_loopback ? "" : local.interface, std::move(source)};
}

std::variant<OwnAddress, std::string> choose_named(const OwnAddressRequest& request) {
    const std::string source = "--local-addr " + request.local_addr;
    if (const auto* why = std::get_if<std::string>(&request.resolved))
        return fmt::format("{}: cannot be resolved on this machine: {}", source, *why);
    const auto& resolved = std::get<std::vector<std::string>>(request.resolved);
    if (!has_own_address(resolved, request.own))
        return fmt::format("{}: no address of this machine, which has {}", source,
                           addresses_text(request.own));
    const auto networks = networks_of(request.networks);
    const auto is_meant = [&](const std::string& address) {
        return networks.empty() || std::any_of(networks.begin(), networks.end(), [&](const Network& network) {
                   return network.contains(address);
               });
    };
    const auto meant = std::find_if(resolved.begin(), resolved.end(), [&](const std::string& address) {
        return has_own_address({address}, request.own) && is_meant(address);
    });
    if (meant == resolved.end())
        return fmt::format("{}: contradicts --net {}, in which it is not", source, request.networks);
    const auto local = std::find_if(request.own.begin(), request.own.end(),
                                    [&](const LocalAddress& own) { return own.address == *meant; });
    // Of 127.0.0.0/8 not all are listed.
    if (local == request.own.end()) return OwnAddress{*meant, "", source};
    return own_address_at(*local, source);
}

std::variant<OwnAddress, std::string> choose_in_networks(const OwnAddressRequest& request) {
    const std::string source = "--net " + request.networks;
    for (const Network& network : networks_of(request.networks)) {
        for (const bool loopback : {false, true}) {
            const auto local =
                std::find_if(request.own.begin(), request.own.end(), [&](const LocalAddress& own) {
                    return own.is_loopback == loopback && network.contains(own.address);
                });
            if (local != request.own.end()) return own_address_at(*local, source);
        }
    }
    return fmt::format("{}: no address of this node is in it, which has {}", source,
                       addresses_text(request.own));
}

}  // namespace

std::variant<OwnAddress, std::string> choose_own_address(const OwnAddressRequest& request) {
    if (!request.local_addr.empty()) return choose_named(request);
    if (!request.networks.empty()) return choose_in_networks(request);
    return OwnAddress{};
}

}  // namespace ddprun::inline launch
