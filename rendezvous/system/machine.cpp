#include "rendezvous/system/machine.hpp"

#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace base {

std::string host_name() {
    // The longest name and its final zero, without which the system gives none.
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (::gethostname(name.data(), name.size()) != 0) return "unknown";
    return name.data();
}

void fill_random(std::span<std::uint8_t> bytes, const char* purpose) {
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        fail_errno(errno, fmt::format("cannot get random bytes for {} (getrandom)", purpose));
}

std::string hex_text(std::span<const std::uint8_t> bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

}  // namespace base
}  // namespace ddprun
