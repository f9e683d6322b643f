#include "rendezvous/net/listen_plan.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ddprun::inline base {
namespace {

bool is_own(const std::string& address, const std::vector<LocalAddress>& own) {
    // Every one of 127.0.0.0/8 leads here, though only 127.0.0.1 is listed.
    if (address.find(':') == std::string::npos && is_loopback_address(address)) return true;
    // Those of one link are not listed; whether it is ours shows when it is bound.
    if (address.starts_with("fe80:")) return true;
    return std::any_of(own.begin(), own.end(),
                       [&](const LocalAddress& local) { return local.address == address; });
}

std::string refusal(const ListenRequest& request, const std::vector<std::string>& resolved) {
    const bool is_shown = resolved.front() == request.master_addr;
    return fmt::format(
        "--master-addr {}{}: no address of this machine, which has {}; node 0 hosts the rendezvous: {} an "
        "address "
        "of its own, or --listen any if that one leads here all the same",
        request.master_addr, is_shown ? "" : fmt::format(" ({})", resolved.front()),
        addresses_text(request.own),
        request.nnodes > 1 ? "on another node give its --node-rank, on node 0" : "give");
}

}  // namespace

bool leads_out(const ListenPlan& plan) {
    const auto is_others = [](const std::string& address) { return !is_loopback_address(address); };
    return plan.any || std::any_of(plan.addresses.begin(), plan.addresses.end(), is_others);
}

bool has_own_address(const std::vector<std::string>& addresses, const std::vector<LocalAddress>& own) {
    return std::any_of(addresses.begin(), addresses.end(),
                       [&own](const std::string& address) { return is_own(address, own); });
}

std::variant<ListenPlan, std::string> plan_listening(const ListenRequest& request) {
    if (request.any) return ListenPlan{true, {}};
    const auto* resolved = std::get_if<std::vector<std::string>>(&request.resolved);
    if (resolved == nullptr || resolved->empty()) {
        if (request.nnodes > 1) return ListenPlan{true, {}};
        return "--master-addr " + request.master_addr + ": cannot be resolved on this machine" +
               (resolved == nullptr ? ": " + std::get<std::string>(request.resolved) : "");
    }
    ListenPlan plan;
    for (const std::string& address : *resolved) {
        if (is_own(address, request.own)) plan.addresses.push_back(address);
    }
    if (plan.addresses.empty()) return refusal(request, *resolved);
    const bool is_name = !is_loopback_address(request.master_addr) && request.master_addr != "localhost";
    if (request.nnodes > 1 && is_name && !leads_out(plan)) return ListenPlan{true, {}, true};
    std::erase(plan.addresses, "127.0.0.1");
    return plan;
}

}  // namespace ddprun::inline base
