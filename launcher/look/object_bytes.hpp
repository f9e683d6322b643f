// ObjectBytes is a copy of the beginning of a structure of another process.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>

#include "launcher/look/memory_reader.hpp"
#include "launcher/look/python_layout.hpp"

namespace ddprun {
inline namespace launch {

class ObjectBytes {
  public:
    // Copies a structure up to a word at the last of these offsets, each of which leaves room for one in
    // kMaxObject. Returns nothing if it cannot be read.
    static std::optional<ObjectBytes> read(const MemoryReader& memory, std::uintptr_t address,
                                           std::initializer_list<std::size_t> offsets) {
        ObjectBytes object;
        const std::size_t size = std::max(offsets) + sizeof(std::uint64_t);
        if (address == 0 || !memory.read(address, std::span(object.bytes_).first(size))) return std::nullopt;
        return object;
    }

    template <class T>
    T at(std::size_t offset) const {
        T value{};
        std::memcpy(&value, std::span(bytes_).subspan(offset, sizeof value).data(), sizeof value);
        return value;
    }

  private:
    std::array<std::byte, PythonLayout::kMaxObject + sizeof(std::uint64_t)> bytes_{};
};

}  // namespace launch
}  // namespace ddprun
