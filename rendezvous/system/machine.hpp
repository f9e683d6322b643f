// The machine tells every program that asks its name and random bytes. Any thread may call these.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddprun {
inline namespace base {

// Returns the name that the kernel has for this machine; "unknown" where it tells none.
std::string host_name();

// Fills the bytes from the kernel's random numbers. Throws system_error, which names the `purpose` ("the
// job's id").
void fill_random(std::span<std::uint8_t> bytes, const char* purpose);

template <std::size_t count>
std::array<std::uint8_t, count> random_bytes(const char* purpose) {
    std::array<std::uint8_t, count> bytes{};
    fill_random(bytes, purpose);
    return bytes;
}

// One number of theirs, each as likely as any other.
template <class Number>
Number random_number(const char* purpose) {
    return std::bit_cast<Number>(random_bytes<sizeof(Number)>(purpose));
}

// Writes two lower-case digits for each byte.
std::string hex_text(std::span<const std::uint8_t> bytes);

}  // namespace base
}  // namespace ddprun
