#include "launcher/plan/own_address.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ddprun {
inline namespace launch {
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
    // Not all of 127.0.0.0/8 are listed.
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

namespace {

// It concerns a node behind a translator of addresses, or in a container with a network of its own.
std::string seen_text(const CarrierFacts& facts, const Carrier& carrier) {
    // The other end knows nothing of a zone.
    const std::string local = facts.local.substr(0, facts.local.find('%'));
    if (facts.seen.empty() || local.empty() || facts.seen == local) return {};
    return fmt::format(
        "this node is {} itself, but {} to the coordinator (translated on the way?); workers use {}, by {}",
        facts.local, facts.seen, carrier.address,
        facts.said.address.empty() ? "default; --local-addr ADDRESS decides" : facts.said.source);
}

std::string reached_text(const CarrierFacts& facts, const Carrier& carrier) {
    if (facts.reached_at.empty() || has_own_address({facts.reached_at}, facts.own)) return {};
    const std::string used = facts.said.address.empty()
                                 ? "workers choose an interface by themselves; --local-addr ADDRESS decides"
                                 : fmt::format("workers use {}, by {}", carrier.address, facts.said.source);
    return fmt::format(
        "other nodes reach this one at {}, which is none of its own addresses (translated on the way?); {}",
        facts.reached_at, used);
}

}  // namespace

std::optional<std::string> carrier_interface(const std::string& address,
                                             const std::vector<LocalAddress>& own) {
    for (const LocalAddress& local : own) {
        if (local.address == address && !local.is_loopback) return local.interface;
    }
    return std::nullopt;
}

Carrier find_carrier(const CarrierFacts& facts) {
    Carrier carrier;
    if (!facts.said.address.empty()) {
        carrier = {facts.said.address, facts.said.interface,
                   fmt::format("has {}, by {}", facts.said.address, facts.said.source), ""};
    } else {
        carrier.address = facts.host.empty() ? facts.reached_at : facts.local;
        carrier.interface = carrier_interface(carrier.address, facts.own).value_or("");
        carrier.why = facts.host.empty() ? "has " + carrier.address + ", by which other nodes reach this one"
                                         : "carries the way to " + facts.host;
    }
    carrier.remark = facts.host.empty() ? reached_text(facts, carrier) : seen_text(facts, carrier);
    return carrier;
}

std::vector<std::string> name_interface(Environment& environment, const std::string& interface) {
    std::vector<std::string> names;
    if (interface.empty()) return names;
    for (const std::string name : kInterfaceVariables) {
        // NCCL takes a name for the beginning of one unless "=" is in front.
        const bool is_nccls = name.starts_with("NCCL_");
        if (environment.emplace(name, (is_nccls ? "=" : "") + interface).second) names.push_back(name);
    }
    return names;
}

std::string interface_text(const std::vector<std::string>& names, const Carrier& carrier) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text.empty() ? text : fmt::format("{}={}, which {}", text, carrier.interface, carrier.why);
}

std::string loopback_of(const std::string& master_addr) {
    return is_loopback_address(master_addr) ? master_addr : "127.0.0.1";
}

}  // namespace launch
}  // namespace ddprun
