// ThreadRegisters are what an unwinding begins with. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "launcher/look/architecture.hpp"

namespace ddprun {
inline namespace launch {

struct ThreadRegisters {
    std::uintptr_t stack_pointer = 0;
    std::uintptr_t program_counter = 0;
    // all: by DWARF's numbers; empty of a thread that was not stopped: no more than those two are known.
    std::vector<std::uint64_t> all;
};

// RegisterTable: where DWARF and the kernel have an architecture's registers.
struct RegisterTable {
    std::size_t count = 0;  // those that DWARF's unwinding knows
    std::size_t stack_pointer = 0;
    std::size_t frame_pointer = 0;
    std::size_t program_counter = 0;  // `count`: is none of them
    std::vector<std::size_t> words;   // of each its word in what PTRACE_GETREGSET copies
    std::size_t program_counter_word = 0;
};
const RegisterTable& register_table(Architecture architecture = kOwnArchitecture);

// Returns the registers of what PTRACE_GETREGSET has copied; all 0 for fewer words than the table wants.
ThreadRegisters registers_of(const std::vector<std::uint64_t>& words, const RegisterTable& table);

// Returns them in DWARF's order, with zeros for those that are not known.
std::vector<std::uint64_t> in_dwarf_order(const ThreadRegisters& registers, const RegisterTable& table);

}  // namespace launch
}  // namespace ddprun
