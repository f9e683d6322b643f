#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/doctor/diagnosis.hpp"

namespace ddprun::inline launch {
namespace {

// "eth0, eth1 and 7 more"
std::string names_text(const std::vector<std::string>& names) {
    std::string text;
    const std::size_t shown = std::min(names.size(), kNamesShown);
    for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + names[i];
    return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

// The first by which others may reach this node; empty: none.
std::string outward_address(const std::vector<LocalAddress>& own) {
    const auto found =
        std::find_if(own.begin(), own.end(), [](const LocalAddress& one) { return !one.is_loopback; });
    return found == own.end() ? "" : found->address;
}

bool is_own(const std::string& address, const std::vector<LocalAddress>& own) {
    return std::any_of(own.begin(), own.end(),
                       [&address](const LocalAddress& one) { return one.address == address; });
}

}  // namespace

Finding name_finding(const std::string& host, const NameFacts& name, const std::vector<LocalAddress>& own) {
    const std::string address = outward_address(own);
    const std::string by_number = fmt::format("give --master-addr {} where this is node 0",
                                              address.empty() ? "an address of this node" : address);
    if (name.end == AnswerEnd::hangs)
        return warning_finding("host_name", "who " + host + " is was not answered in time",
                               by_number + ", or correct the name servers in /etc/resolv.conf");
    if (name.addresses.empty())
        return warning_finding("host_name", fmt::format("{} stands for no address: {}", host, name.why),
                               by_number + ", or add a line to /etc/hosts of all nodes");
    const std::string text = fmt::format("{} stands for {}", host, names_text(name.addresses));
    if (std::all_of(name.addresses.begin(), name.addresses.end(), is_loopback_address))
        return warning_finding("host_name", text + ", which leads every other node to itself",
                               fmt::format("{}, or write that address in place of {} in /etc/hosts",
                                           by_number, name.addresses.front()));
    const bool leads_here =
        std::any_of(name.addresses.begin(), name.addresses.end(),
                    [&own](const std::string& one) { return !is_loopback_address(one) && is_own(one, own); });
    if (!leads_here)
        return warning_finding("host_name", text + ", which is no address of this node",
                               by_number + "; where addresses are translated on the way, --listen any");
    return ok_finding("host_name", text);
}

Finding addresses_finding(const std::vector<LocalAddress>& own, const std::vector<std::string>& idle) {
    std::vector<std::string> outward;
    bool has_loopback = false;
    for (const LocalAddress& one : own) {
        has_loopback = has_loopback || one.is_loopback;
        if (!one.is_loopback) outward.push_back(fmt::format("{} ({})", one.address, one.interface));
    }
    const std::string rest = idle.empty() ? "" : "; down or without an address: " + names_text(idle);
    if (!has_loopback)
        return problem_finding("addresses", "the loopback interface has no address" + rest,
                               "ip link set lo up");
    if (outward.empty())
        return warning_finding("addresses", "only those of loopback: no other node can reach this one" + rest,
                               "for several nodes: ip link set DEVICE up, and an address for it");
    return ok_finding("addresses", names_text(outward) + rest);
}

Finding port_finding(const PortFacts& port) {
    const std::string about = std::to_string(port.port);
    if (port.error_number == 0) return ok_finding("port", "free", about);
    std::string text = port.error_number == EADDRINUSE ? "taken" : std::strerror(port.error_number);
    if (!port.holder.empty()) text += " by " + port.holder;
    const std::string remedy = "give another one by --master-port, or by --rdzv-endpoint HOST:PORT";
    return port.is_needed ? problem_finding("port", text, remedy, about)
                          : warning_finding("port", text, remedy, about);
}

Finding proxy_finding(const std::vector<std::string>& proxies) {
    if (proxies.empty()) return ok_finding("proxy", "no variable names one");
    return ok_finding("proxy", fmt::format("{} set; ddprun goes through no proxy, workers may",
                                           names_text(proxies) + (proxies.size() == 1 ? " is" : " are")));
}

}  // namespace ddprun::inline launch
