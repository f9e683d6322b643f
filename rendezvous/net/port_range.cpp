#include "rendezvous/net/port_range.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/net/socket_owner.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace base {
namespace {

// So many ports lie between where processes begin that were started one after the other: most have a few
// listeners.
constexpr std::uint64_t kPortsBetween = 8;

[[noreturn]] void fail_exhausted(const PortRange& range, const std::optional<PortRange>& spared,
                                 const std::string& address, std::uint16_t held) {
    const auto owner = find_port_owner(held);
    const std::string holder =
        owner ? fmt::format("held by pid {} ({})", owner->pid, owner->command) : "taken";
    const bool is_spared = spared && spared->first <= range.last && range.first <= spared->last;
    const std::string own = is_spared ? fmt::format(", the job's own {} left out", to_string(*spared)) : "";
    fail(Errc::address_in_use,
         fmt::format(
             "cannot listen on {}: no port of --port-range {} ({}) is free{}; {} is {}; take a larger range",
             address, to_string(range), kPortRangeVariable, own, held, holder));
}

}  // namespace

std::optional<PortRange> parse_port_range(std::string_view text) {
    if (text.find('-') == text.npos) return std::nullopt;
    const auto [low, high] = ends_of_range(text);
    const auto first = parse_port(low), last = parse_port(high);
    if (!first || !last || *first == 0 || *first > *last) return std::nullopt;
    return PortRange{*first, *last};
}

std::string to_string(const PortRange& range) { return fmt::format("{}-{}", range.first, range.last); }

std::vector<std::uint16_t> ports_to_try(const PortRange& range, const std::optional<PortRange>& spared,
                                        std::uint64_t seed) {
    const auto size = static_cast<std::uint64_t>(range.size());
    std::vector<std::uint16_t> ports;
    ports.reserve(size);
    for (std::uint64_t i = 0; i < size; ++i) {
        const auto port = static_cast<std::uint16_t>(range.first + (seed * kPortsBetween + i) % size);
        if (!spared || !spared->contains(port)) ports.push_back(port);
    }
    return ports;
}

void take_port(const PortRange& range, const std::optional<PortRange>& spared, const std::string& address,
               const std::function<int(std::uint16_t)>& listen_at) {
    const auto ports = ports_to_try(range, spared, static_cast<std::uint64_t>(::getpid()));
    for (const std::uint16_t port : ports) {
        const int error = listen_at(port);
        if (error == 0) return;
        if (error != EADDRINUSE) fail_errno(error, "cannot listen on " + to_string(Endpoint{address, port}));
    }
    fail_exhausted(range, spared, address, ports.empty() ? range.first : ports.front());
}

}  // namespace base
}  // namespace ddprun
