#include "collectives/local_addresses.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <memory>

#include "rendezvous/error.hpp"

namespace ddprun {
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

}  // namespace ddprun
