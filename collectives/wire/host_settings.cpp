#include "collectives/wire/host_settings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "collectives/call/checked_task.hpp"
#include "collectives/wire/frame.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr char kHostId[] = "DDPRUN_HOSTID";
constexpr char kInterfaces[] = "DDPRUN_SOCKET_IFNAME";
constexpr char kNetworks[] = "DDPRUN_NET";
constexpr char kSockets[] = "DDPRUN_SOCKETS_PER_PEER";
constexpr std::size_t kMaxAddressesInText = 16;

std::string setting(const char* name, const std::string& value) {
    return fmt::format("{}='{}'", name, value);
}

bool is_printable(char c) { return c > ' ' && c < '\x7f'; }

std::string read_host_id(const std::string& value) {
    if (value.empty() || value.size() > kMaxHostId ||
        !std::all_of(value.begin(), value.end(), is_printable)) {
        refuse("join", fmt::format("{} is not 1 to {} printable ASCII characters without blanks",
                                   setting(kHostId, value), kMaxHostId));
    }
    return value;
}

InterfaceFilter read_interfaces(const std::string& value) {
    InterfaceFilter filter;
    std::string_view rest = value;
    const auto take = [&](char mark) {
        const bool found = rest.starts_with(mark);
        if (found) rest.remove_prefix(1);
        return found;
    };
    filter.excludes = take('^');
    filter.exact = take('=');
    while (true) {
        const std::size_t comma = std::min(rest.find(','), rest.size());
        filter.names.emplace_back(rest.substr(0, comma));
        const std::string& name = filter.names.back();
        if (name.empty() || !std::all_of(name.begin(), name.end(), is_printable)) {
            refuse("join", setting(kInterfaces, value) +
                               " is not a list of interface names, with ^ or = before it at most");
        }
        if (comma == rest.size()) return filter;
        rest.remove_prefix(comma + 1);
    }
}

int read_sockets(const std::string& value) {
    const auto number = whole_number(value, 1, kMaxLanes);
    if (number && value.size() == 1) return *number;
    refuse("join", fmt::format("{} is not a number from 1 to {}", setting(kSockets, value), kMaxLanes));
}

// The place of the first that fits.
template <class List, class Fits>
std::optional<std::size_t> first_place(const List& list, Fits fits) {
    const auto found = std::find_if(list.begin(), list.end(), fits);
    if (found == list.end()) return std::nullopt;
    return static_cast<std::size_t>(found - list.begin());
}

// The place among the networks; nothing if it is in none of those given.
std::optional<std::size_t> place_of(const std::vector<Network>& networks, const std::string& address) {
    if (networks.empty()) return 0;
    return first_place(networks, [&](const Network& network) { return network.contains(address); });
}

bool is_v6(const std::string& address) { return address.find(':') != std::string::npos; }

[[noreturn]] void refuse_interfaces(const HostSettings& settings, std::span<const LocalAddress> addresses) {
    std::string text;
    if (settings.interfaces) text = setting(kInterfaces, settings.interfaces_text);
    if (settings.interfaces && !settings.networks.empty()) text += " and ";
    if (!settings.networks.empty()) text += setting(kNetworks, settings.networks_text);
    text += ": no address of this machine satisfies it; there are";
    for (std::size_t i = 0; i < addresses.size() && i < kMaxAddressesInText; ++i) {
        text += fmt::format("{}{} ({})", i == 0 ? " " : ", ", addresses[i].address, addresses[i].interface);
    }
    if (addresses.empty()) text += " none at all";
    refuse("join", text);
}

}  // namespace

std::optional<std::size_t> InterfaceFilter::place_of(const std::string& interface) const {
    const auto found = first_place(names, [&](const std::string& name) {
        return exact ? interface == name : interface.starts_with(name);
    });
    if (!excludes) return found;
    return found ? std::nullopt : std::optional<std::size_t>(0);
}

HostSettings read_host_settings(const Environment& environment) {
    HostSettings settings;
    const auto read = [&](const char* name, auto use) {
        const auto found = environment.find(name);
        if (found != environment.end()) use(found->second);
    };
    read(kHostId, [&](const std::string& value) { settings.host_id = read_host_id(value); });
    read(kInterfaces, [&](const std::string& value) {
        settings.interfaces = read_interfaces(value);
        settings.interfaces_text = value;
    });
    read(kNetworks, [&](const std::string& value) {
        auto networks = parse_networks(value);
        if (!networks)
            refuse("join", setting(kNetworks, value) + " is not a list of networks like 10.0.0.0/8");
        settings.networks = std::move(*networks);
        settings.networks_text = value;
    });
    read(kPortRangeVariable, [&](const std::string& value) {
        settings.ports = parse_port_range(value);
        if (!settings.ports)
            refuse("join", setting(kPortRangeVariable, value) + " is not FIRST-LAST, like 30000-30100");
    });
    read(kSockets, [&](const std::string& value) { settings.sockets_per_peer = read_sockets(value); });
    return settings;
}

std::string choose_address(const HostSettings& settings, std::span<const LocalAddress> addresses,
                           const std::string& usual) {
    using Preference = std::tuple<std::size_t, std::size_t, bool, bool>;
    const LocalAddress* best = nullptr;
    Preference best_preference;
    for (const LocalAddress& local : addresses) {
        const auto name = settings.interfaces ? settings.interfaces->place_of(local.interface) : 0;
        const auto network = place_of(settings.networks, local.address);
        if (!name || !network) continue;
        const Preference preference{*name, *network, local.is_loopback, is_v6(local.address) != is_v6(usual)};
        if (best != nullptr && preference >= best_preference) continue;
        best = &local;
        best_preference = preference;
    }
    if (best == nullptr) refuse_interfaces(settings, addresses);
    return best->address;
}

}  // namespace detail
}  // namespace ddprun
