#include "rendezvous/net/network.hpp"

#include <arpa/inet.h>

#include <string>

#include "rendezvous/system/split.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline base {
namespace {

// With a full prefix.
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

}  // namespace ddprun::inline base
