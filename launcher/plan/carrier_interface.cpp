#include "launcher/plan/carrier_interface.hpp"

#include <fmt/core.h>

namespace ddprun {

std::optional<std::string> carrier_interface(const std::string& address,
                                             const std::vector<LocalAddress>& own) {
    for (const LocalAddress& local : own) {
        if (local.address == address && !local.is_loopback) return local.interface;
    }
    return std::nullopt;
}

std::string name_carrier_interface(Environment& environment, const std::string& address,
                                   const std::vector<LocalAddress>& own) {
    const auto interface = carrier_interface(address, own);
    if (!interface) return {};
    std::string names;
    for (const std::string name : kInterfaceVariables) {
        // NCCL takes a name for the beginning of one unless "=" is in front.
        const bool is_nccls = name.starts_with("NCCL_");
        if (environment.emplace(name, (is_nccls ? "=" : "") + *interface).second)
            names += (names.empty() ? "" : ", ") + name;
    }
    if (names.empty()) return {};
    return fmt::format("workers are told to use {}, since {} carries the rendezvous: {}", *interface, address,
                       names);
}

std::string loopback_of(const std::string& master_addr) {
    return is_loopback_address(master_addr) ? master_addr : "127.0.0.1";
}

}  // namespace ddprun
