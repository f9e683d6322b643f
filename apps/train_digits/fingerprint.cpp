#include "apps/train_digits/fingerprint.hpp"

#include <fmt/core.h>

namespace ddprun::inline app {

void Fingerprint::add(std::span<const std::byte> bytes) {
    constexpr std::uint64_t kFnvPrime = 0x100000001b3;
    for (const std::byte byte : bytes) {
        value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * kFnvPrime;
    }
}

std::string hexadecimal(std::uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace ddprun::inline app
