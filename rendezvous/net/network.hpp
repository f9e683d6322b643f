// Networks as CIDR writes them: an address and the number of its leading bits that count. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace ddprun::inline base {

struct Network {
    bool is_v6 = false;
    std::array<std::uint8_t, 16> address{};  // of an IPv4 network the first four
    int prefix = 0;

    // False for what is no numeric address, and for the other family.
    bool contains(std::string_view text) const;
};

// `10.0.0.0/8`, `fd00::/8`; an address without a length stands for itself alone. Bits behind the prefix may
// be set and are ignored.
std::optional<Network> parse_network(std::string_view text);

// One or more, with commas between.
std::optional<std::vector<Network>> parse_networks(std::string_view text);

}  // namespace ddprun::inline base
