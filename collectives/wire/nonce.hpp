// Nonce: what only the ranks of one communicator know of it.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun::inline detail {

using Nonce = std::array<std::uint8_t, 16>;

// From the system. Throws system_error.
Nonce random_nonce();

}  // namespace ddprun::inline detail
