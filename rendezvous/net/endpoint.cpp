#include "rendezvous/net/endpoint.hpp"

#include <fmt/core.h>

#include <boost/asio/ip/address.hpp>

#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace base {
namespace {

constexpr std::size_t kMaxHostLength = 253;  // RFC 1035
constexpr std::size_t kMaxPortDigits = 5;

bool is_ipv4(std::string_view text) {
    boost::system::error_code error;
    boost::asio::ip::make_address_v4(std::string(text), error);
    return !error;
}

constexpr std::string_view kNameCharacters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._";

bool has_only(std::string_view characters, std::string_view text) {
    return text.find_first_not_of(characters) == std::string_view::npos;
}

// A zone, behind the percent sign, is an interface's name or number; the parser would take any bytes there.
bool is_ipv6(std::string_view text) {
    const auto percent = text.find('%');
    const auto zone = percent == std::string_view::npos ? std::string_view("-") : text.substr(percent + 1);
    if (zone.empty() || !has_only(kNameCharacters, zone)) return false;
    if (text.find('\0') != std::string_view::npos) return false;
    boost::system::error_code error;
    boost::asio::ip::make_address_v6(std::string(text), error);
    return !error;
}

}  // namespace

bool is_valid_host(std::string_view host) {
    if (host.empty() || host.size() > kMaxHostLength) return false;
    if (host.find(':') != std::string_view::npos) return is_ipv6(host);
    // All digits and dots is meant as an address; 10.0.0 or 300.1.1.1 would otherwise be looked up as names.
    if (has_only("0123456789.", host)) return is_ipv4(host);
    if (host.front() == '-' || host.front() == '.') return false;
    return has_only(kNameCharacters, host) && host.find("..") == std::string_view::npos;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
    if (text.empty() || text.size() > kMaxPortDigits) return std::nullopt;
    return whole_number<std::uint16_t>(text);
}

std::optional<Endpoint> parse_endpoint(std::string_view text, std::uint16_t default_port) {
    std::string_view host = text;
    std::optional<std::uint16_t> port = default_port;
    if (!text.empty() && text.front() == '[') {
        auto close = text.find(']');
        if (close == std::string_view::npos) return std::nullopt;
        host = text.substr(1, close - 1);
        if (!is_ipv6(host)) return std::nullopt;
        auto rest = text.substr(close + 1);
        if (!rest.empty()) port = rest.front() == ':' ? parse_port(rest.substr(1)) : std::nullopt;
    } else if (auto colon = text.find(':'); colon != std::string_view::npos && colon == text.rfind(':')) {
        host = text.substr(0, colon);
        port = parse_port(text.substr(colon + 1));
    }
    if (!port || !is_valid_host(host)) return std::nullopt;
    return Endpoint{std::string(host), *port};
}

std::string to_string(const Endpoint& endpoint) {
    const bool brackets = endpoint.host.find(':') != std::string::npos;
    return brackets ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                    : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

}  // namespace base
}  // namespace ddprun
