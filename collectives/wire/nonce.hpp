// Nonce: what only the ranks of one communicator know of it.
#pragma once

#include <array>
#include <cstdint>

#include "rendezvous/system/machine.hpp"

namespace ddprun::inline detail {

using Nonce = std::array<std::uint8_t, 16>;

// Asks the kernel. Throws system_error.
inline Nonce random_nonce() { return random_bytes<16>("a communicator"); }

}  // namespace ddprun::inline detail
