// MemoryReader reads the memory of one process, or of what stands for one in a test.
//
// Nothing that is read is to be believed: every address may be wrong, and what stands there may change from
// one call to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace ddprun {
inline namespace launch {

class MemoryReader {
  public:
    virtual ~MemoryReader() = default;

    // Fills `into` from that address on; false, and anything in `into`, if not all of it can be read. Never
    // throws.
    virtual bool read(std::uintptr_t address, std::span<std::byte> into) const = 0;

    // Returns what stands at the address, taken for a T; nothing if it cannot be read.
    template <class T>
    requires std::is_trivially_copyable_v<T> std::optional<T> value(std::uintptr_t address)
    const {
        T found{};
        if (!read(address, std::as_writable_bytes(std::span(&found, 1)))) return std::nullopt;
        return found;
    }

    // Returns the bytes from the address to the first zero, at most `most` of them; nothing if some of these
    // cannot be read.
    std::optional<std::string> text(std::uintptr_t address, std::size_t most) const {
        constexpr std::size_t kPiece = 256;  // pieces end where it divides the address: none is in two pages
        std::string found;
        while (found.size() < most) {
            const std::uintptr_t next = address + found.size();
            const std::size_t before = found.size();
            found.resize(std::min(most, before + kPiece - next % kPiece));
            if (!read(next, std::as_writable_bytes(std::span(found).subspan(before)))) return std::nullopt;
            const auto end = found.find('\0', before);
            if (end != std::string::npos) found.resize(end);
            if (end != std::string::npos) break;
        }
        return found;
    }
};

}  // namespace launch
}  // namespace ddprun
