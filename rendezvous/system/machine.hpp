// host_name() and fill_random() return the machine's name and random bytes, from the kernel. Any thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun {
inline namespace base {

// Returns the kernel's name for this machine; "unknown" where there is none.
std::string host_name();

// Fills `bytes` with the kernel's random numbers. Throws system_error; its message names the `purpose` ("the
// job's id").
void fill_random(std::span<std::uint8_t> bytes, const char* purpose);

template <std::size_t count>
std::array<std::uint8_t, count> random_bytes(const char* purpose) {
    std::array<std::uint8_t, count> bytes{};
    fill_random(bytes, purpose);
    return bytes;
}

// random_number() returns one random Number, each value as likely as any other.
template <class Number>
Number random_number(const char* purpose) {
    return std::bit_cast<Number>(random_bytes<sizeof(Number)>(purpose));
}

// Returns two lower-case hexadecimal digits for each byte.
std::string hex_text(std::span<const std::uint8_t> bytes);

}  // namespace base
}  // namespace ddprun
