#include "rendezvous/net/local_addresses.hpp"

#include <fmt/core.h>
#include <boost/asio/ip/address.hpp>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace base {

namespace {

// Reads an address alone, as a network of one.
std::optional<Network> parse_address(std::string_view text) {
    const std::string host(text);
    Network network;
    if (::inet_pton(AF_INET, host.c_str(), network.address.data()) == 1) {
        network.prefix = 32;
        return network;
    }
    if (::inet_pton(AF_INET6, host.c_str(), network.address.data()) != 1) return std::nullopt;
    network.is_v6 = true;
    network.prefix = 128;
    return network;
}

}  // namespace

bool Network::contains(std::string_view text) const {
    const auto other = parse_address(text);
    if (!other || other->is_v6 != is_v6) return false;
    for (int bit = 0; bit < prefix; ++bit) {
        const auto byte = static_cast<std::size_t>(bit / 8);
        const int mask = 0x80 >> bit % 8;
        if (((address[byte] ^ other->address[byte]) & mask) != 0) return false;
    }
    return true;
}

std::optional<Network> parse_network(std::string_view text) {
    const std::size_t slash = text.find('/');
    auto network = parse_address(text.substr(0, slash));
    if (!network || slash == std::string_view::npos) return network;
    const std::string_view length = text.substr(slash + 1);
    const auto prefix = whole_number<int>(length, 0, network->prefix);
    if (!prefix) return std::nullopt;
    network->prefix = *prefix;
    return network;
}

std::optional<std::vector<Network>> parse_networks(std::string_view text) {
    std::vector<Network> networks;
    for (const std::string_view part : split_at(text, ',')) {
        const auto network = parse_network(part);
        if (!network) return std::nullopt;
        networks.push_back(*network);
    }
    return networks;
}

namespace {

bool is_link_local(const sockaddr* address) {
    if (address->sa_family != AF_INET6) return false;
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

std::string numeric_host(const sockaddr* address) {
    const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return {};
    return text;
}

std::vector<LocalAddress> local_addresses() {
    ifaddrs* found = nullptr;
    if (::getifaddrs(&found) != 0) fail_errno(errno, "cannot list the addresses of this machine");
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, ::freeifaddrs);
    std::vector<LocalAddress> addresses;
    for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
        const sockaddr* address = entry->ifa_addr;
        if (address == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
        if (address->sa_family != AF_INET && address->sa_family != AF_INET6) continue;
        if (is_link_local(address)) continue;
        addresses.push_back({entry->ifa_name, numeric_host(address), (entry->ifa_flags & IFF_LOOPBACK) != 0});
    }
    return addresses;
}

std::string addresses_text(const std::vector<LocalAddress>& addresses) {
    std::string text;
    std::size_t named = 0;
    for (const LocalAddress& local : addresses) {
        if (local.is_loopback) continue;
        if (++named > kMaxAddressesNamed) return text + ", …";
        text += fmt::format("{}{} ({})", named == 1 ? "" : ", ", local.address, local.interface);
    }
    return text.empty() ? "loopback addresses only" : text;
}

bool is_loopback_address(const std::string& address) {
    boost::system::error_code error;
    const auto parsed = boost::asio::ip::make_address(address, error);
    return !error && parsed.is_loopback();
}

bool is_wildcard(const std::string& address) {
    boost::system::error_code error;
    const auto parsed = boost::asio::ip::make_address(address, error);
    return address == "*" || (!error && parsed.is_unspecified());
}

namespace {

bool is_own(const std::string& address, const std::vector<LocalAddress>& own) {
    // Every one of 127.0.0.0/8 leads here, though only 127.0.0.1 is listed.
    if (address.find(':') == std::string::npos && is_loopback_address(address)) return true;
    // Addresses of one link are not listed; whether it is ours shows when it is bound.
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

}  // namespace base
}  // namespace ddprun
