#include "launcher/plan/carrier_interface.hpp"

#include <fmt/core.h>

#include "rendezvous/net/listen_plan.hpp"

namespace ddprun::inline launch {
namespace {

// Of a node that is behind a translator of addresses, or in a container with a network of its own.
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

}  // namespace ddprun::inline launch
