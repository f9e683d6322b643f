// PortRange holds the ports for listeners that nobody has asked for by number (--port-range), where a
// firewall leaves only those open. Pure, but for take_port's system calls.
//
// All who listen on a machine share the range: each begins to look at a place of its own, and tries the next
// one where somebody is.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

// Workers, and launchers, know it by this variable.
inline constexpr char kPortRangeVariable[] = "DDPRUN_PORT_RANGE";

struct PortRange {
    std::uint16_t first = 1;
    std::uint16_t last = 65535;

    constexpr int size() const { return last - first + 1; }
    constexpr bool contains(std::uint16_t port) const { return first <= port && port <= last; }
    bool operator==(const PortRange&) const = default;
};

// Reads `FIRST-LAST`, both from 1 to 65535 and in order.
std::optional<PortRange> parse_port_range(std::string_view text);

std::string to_string(const PortRange& range);

// FreePorts says which ports a listener may take that has none of its own.
struct FreePorts {
    std::optional<PortRange> range;  // nothing: the kernel chooses
    std::optional<PortRange>
        spared;  // these are the job's own, which another agent of this machine may be about to take
};

// Returns the ports of the range, each once, from the one that process `seed` begins at, but for the spared
// ones.
std::vector<std::uint16_t> ports_to_try(const PortRange& range, const std::optional<PortRange>& spared,
                                        std::uint64_t seed);

// Asks `listen_at` for one port after the other until it returns 0, and not EADDRINUSE. Throws
// Errc::address_in_use where nobody is left, which names the range and who holds a port of it; for another
// errno that.
void take_port(const PortRange& range, const std::optional<PortRange>& spared, const std::string& address,
               const std::function<int(std::uint16_t port)>& listen_at);

}  // namespace base
}  // namespace ddprun
