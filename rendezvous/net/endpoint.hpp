// Endpoint is a host and a port as the user wrote them. Pure.
//
// The host is kept verbatim (without the brackets of IPv6): a name stays a name, an address stays an address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace base {

struct Endpoint {
    std::string host;
    std::uint16_t port = 0;

    bool operator==(const Endpoint&) const = default;
};

// Says whether the text can be a host: a DNS-like name, an IPv4 address, or an IPv6 address without brackets.
bool is_valid_host(std::string_view host);

// Reads a port 0..65535, written as one to five digits; nothing for another text.
std::optional<std::uint16_t> parse_port(std::string_view text);

// Reads `host`, `host:port`, `[v6]`, `[v6]:port` or a bare IPv6 address; without a port the result has
// `default_port`. Returns nothing for a text of another form.
std::optional<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port);

// Returns `host:port`, with brackets around IPv6 addresses.
std::string to_string(const Endpoint& endpoint);

}  // namespace base
}  // namespace ddprun
