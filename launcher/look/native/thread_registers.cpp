#include "launcher/look/native/thread_registers.hpp"

#include <algorithm>
#include <numeric>

namespace ddprun {
inline namespace launch {
namespace {

// DWARF: rax rdx rcx rbx rsi rdi rbp rsp r8 … r15, return address. struct user_regs_struct: r15 r14 r13 r12
// rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp …
RegisterTable x86_64_table() {
    return {17, 7, 6, 16, {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16}, 16};
}

// x0 … x30, sp in both; the program counter stands behind them, and DWARF has no number for it.
RegisterTable aarch64_table() {
    RegisterTable table{32, 31, 29, 32, std::vector<std::size_t>(32), 32};
    std::iota(table.words.begin(), table.words.end(), std::size_t{0});
    return table;
}

}  // namespace

const RegisterTable& register_table(Architecture architecture) {
    static const RegisterTable x86_64 = x86_64_table();
    static const RegisterTable aarch64 = aarch64_table();
    return architecture == Architecture::x86_64 ? x86_64 : aarch64;
}

ThreadRegisters registers_of(const std::vector<std::uint64_t>& words, const RegisterTable& table) {
    ThreadRegisters registers;
    const std::size_t last =
        std::max(*std::max_element(table.words.begin(), table.words.end()), table.program_counter_word);
    if (words.size() <= last) return registers;
    for (const std::size_t word : table.words) registers.all.push_back(words[word]);
    registers.stack_pointer = registers.all[table.stack_pointer];
    registers.program_counter = words[table.program_counter_word];
    return registers;
}

std::vector<std::uint64_t> in_dwarf_order(const ThreadRegisters& registers, const RegisterTable& table) {
    std::vector<std::uint64_t> all = registers.all;
    all.resize(table.count);
    all[table.stack_pointer] = registers.stack_pointer;
    if (table.program_counter < table.count) all[table.program_counter] = registers.program_counter;
    return all;
}

}  // namespace launch
}  // namespace ddprun
