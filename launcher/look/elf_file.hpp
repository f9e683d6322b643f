// mapped_symbol() and file_symbol() find where a program or library has a symbol: in the memory of a process
// that runs it, without its file, or in the file. Pure.
//
// 64-bit ELF of this machine's byte order. Every number in it may be wrong; the work is bounded whatever they
// are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "launcher/look/memory_reader.hpp"

namespace ddprun {
inline namespace launch {

// Returns the address of a symbol that the program or library mapped at `base` defines for others, by the
// tables of the dynamic linker (DT_GNU_HASH).
std::optional<std::uintptr_t> mapped_symbol(const MemoryReader& memory, std::uintptr_t base,
                                            std::string_view name);

// Returns where that is which its file calls so, in .dynsym or .symtab, else the begin of the section
// `or_section`. `file` reads by offsets.
std::optional<std::uintptr_t> file_symbol(const MemoryReader& memory, std::uintptr_t base,
                                          const MemoryReader& file, std::string_view name,
                                          std::string_view or_section);

}  // namespace launch
}  // namespace ddprun
