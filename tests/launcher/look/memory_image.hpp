// MemoryImage is what a look at another process has read, kept to be read again; RecordingReader makes one.
//
// As a file: lines "maps LINE OF MAPS" of the interpreter's files, "threads NUMBERS", and for each piece of
// memory "at ADDRESS SIZE" (hexadecimal) with its bytes and a newline behind it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/look/mappings.hpp"
#include "launcher/look/memory_reader.hpp"

namespace ddprun {

class MemoryImage final : public MemoryReader {
  public:
    // What is no image, or is behind what is none, is left out.
    static MemoryImage parse(std::string_view bytes);
    std::string to_bytes() const;

    bool read(std::uintptr_t address, std::span<std::byte> into) const override;

    std::vector<Mapping> mappings;
    std::vector<pid_t> threads;
    std::map<std::uintptr_t, std::vector<std::byte>> pieces;  // none touches another
};

class RecordingReader final : public MemoryReader {
  public:
    explicit RecordingReader(const MemoryReader& memory) : memory_(memory) {}
    bool read(std::uintptr_t address, std::span<std::byte> into) const override;

    std::map<std::uintptr_t, std::vector<std::byte>> pieces() const;
    std::size_t reads() const { return reads_; }

  private:
    const MemoryReader& memory_;
    mutable std::map<std::uintptr_t, std::byte> bytes_;
    mutable std::size_t reads_ = 0;
};

}  // namespace ddprun
