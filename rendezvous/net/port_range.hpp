// PortRange is the ports for listeners to which the user gave none (--port-range), where a firewall leaves
// only those open. Pure, but for take_port's system calls.
//
// All listeners on a machine share the range: each process begins at another port, and tries the next one
// where one is taken.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace base {

// kPortRangeVariable is the variable by which workers and launchers are told the range.
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

// FreePorts says which ports a listener may take that was given no port.
struct FreePorts {
    std::optional<PortRange> range;  // nothing: the kernel chooses
    // spared: the job's own ports, which another agent of this machine may be about to take.
    std::optional<PortRange> spared;
};

// Returns the ports of the range but for the spared ones, each once; the first one depends on `seed`, which
// is the process's number.
std::vector<std::uint16_t> ports_to_try(const PortRange& range, const std::optional<PortRange>& spared,
                                        std::uint64_t seed);

// Calls `listen_at` for one port after the other until it returns 0, or an errno other than EADDRINUSE, which
// is thrown. Throws Errc::address_in_use, with the range and the holder of a port of it, where no port is
// left.
void take_port(const PortRange& range, const std::optional<PortRange>& spared, const std::string& address,
               const std::function<int(std::uint16_t port)>& listen_at);

}  // namespace base
}  // namespace ddprun
