#include "rendezvous/net/local_addresses.hpp"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "rendezvous/system/error.hpp"

namespace ddprun::inline base {
namespace {

bool is_link_local(const sockaddr* address) {
    if (address->sa_family != AF_INET6) return false;
    return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string numeric_host(const sockaddr* address) {
    const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return {};
    return text;
}

}  // namespace

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
    return name.data();
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

std::variant<std::vector<std::string>, std::string> resolve_host(const std::string& host) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
        return std::string(error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
    std::vector<std::string> addresses;
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
        const std::string address = numeric_host(entry->ai_addr);
        if (std::find(addresses.begin(), addresses.end(), address) == addresses.end())
            addresses.push_back(address);
    }
    return addresses;
}

}  // namespace ddprun::inline base
