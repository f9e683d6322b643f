#include "apps/train_digits/fingerprint.hpp"

namespace ddprun {

void Fingerprint::add(std::span<const std::byte> bytes) {
    constexpr std::uint64_t kFnvPrime = 0x100000001b3;
    for (const std::byte byte : bytes) {
        value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * kFnvPrime;
    }
}

std::string hexadecimal(std::uint64_t value) {
    std::string text(16, '0');
    for (std::size_t place = text.size(); place-- > 0; value /= 16)
        text[place] = "0123456789abcdef"[value % 16];
    return text;
}

}  // namespace ddprun
