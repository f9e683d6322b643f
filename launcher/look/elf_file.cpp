#include "launcher/look/elf_file.hpp"

#include <elf.h>

#include <cstring>
#include <vector>

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxSegments = 128;
constexpr std::size_t kMaxDynamicEntries = 256;
constexpr std::size_t kMaxSections = 4096;
constexpr std::uint32_t kMaxBloomWords = 1 << 20;
constexpr std::uint32_t kMaxChain = 1024;  // symbols of one hash
constexpr std::uint64_t kMaxSymbols = 4'000'000;
constexpr std::uint64_t kMaxNames = 32 * 1024 * 1024;
constexpr int kMaxTables = 4;  // of symbols; files have one or two
constexpr std::size_t kSymbolsAtOnce = 4096;

template <class T>
bool read_all(const MemoryReader& memory, std::uintptr_t address, std::vector<T>& into) {
    return memory.read(address, std::as_writable_bytes(std::span(into)));
}

std::optional<Elf64_Ehdr> header_of(const MemoryReader& memory, std::uintptr_t base) {
    const auto header = memory.value<Elf64_Ehdr>(base);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
        return std::nullopt;
    return header;
}

std::vector<Elf64_Phdr> segments_of(const MemoryReader& memory, std::uintptr_t base) {
    const auto header = header_of(memory, base);
    if (!header || header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum > kMaxSegments) return {};
    std::vector<Elf64_Phdr> segments(header->e_phnum);
    if (!read_all(memory, base + header->e_phoff, segments)) return {};
    return segments;
}

std::optional<std::uintptr_t> bias_of(const std::vector<Elf64_Phdr>& segments, std::uintptr_t base) {
    const Elf64_Phdr* lowest = nullptr;
    for (const auto& segment : segments)
        if (segment.p_type == PT_LOAD && (lowest == nullptr || segment.p_vaddr < lowest->p_vaddr))
            lowest = &segment;
    if (lowest == nullptr) return std::nullopt;
    return base - (lowest->p_vaddr - lowest->p_offset);
}

// Says whether the text at the address is this name and nothing more.
bool is_name(const MemoryReader& memory, std::uintptr_t address, std::string_view name) {
    return memory.text(address, name.size() + 1) == name;
}

// DynamicTables: what the dynamic linker knows of what is mapped.
struct DynamicTables {
    std::uintptr_t hashes = 0;
    std::uintptr_t symbols = 0;
    std::uintptr_t names = 0;
};

DynamicTables dynamic_tables(const MemoryReader& memory, const std::vector<Elf64_Phdr>& segments,
                             std::uintptr_t bias) {
    DynamicTables tables;
    for (const auto& segment : segments) {
        if (segment.p_type != PT_DYNAMIC) continue;
        std::vector<Elf64_Dyn> entries(
            std::min<std::size_t>(segment.p_memsz / sizeof(Elf64_Dyn), kMaxDynamicEntries));
        if (!read_all(memory, bias + segment.p_vaddr, entries)) continue;
        for (const auto& entry : entries) {
            if (entry.d_tag == DT_NULL) break;
            // Some dynamic linkers add the bias in place.
            const std::uintptr_t place =
                entry.d_un.d_ptr >= bias ? entry.d_un.d_ptr : entry.d_un.d_ptr + bias;
            if (entry.d_tag == DT_GNU_HASH) tables.hashes = place;
            if (entry.d_tag == DT_SYMTAB) tables.symbols = place;
            if (entry.d_tag == DT_STRTAB) tables.names = place;
        }
    }
    return tables;
}

std::uint32_t gnu_hash(std::string_view name) {
    std::uint32_t hash = 5381;
    for (const char byte : name) hash = hash * 33 + static_cast<unsigned char>(byte);
    return hash;
}

std::optional<Elf64_Sym> find_by_hash(const MemoryReader& memory, const DynamicTables& tables,
                                      std::string_view name) {
    struct HashHeader {
        std::uint32_t buckets, first_symbol, bloom_words, bloom_shift;
    };
    const auto header = memory.value<HashHeader>(tables.hashes);
    if (!header || header->buckets == 0 || header->bloom_words > kMaxBloomWords) return std::nullopt;
    const std::uint32_t hash = gnu_hash(name);
    const std::uintptr_t buckets =
        tables.hashes + sizeof(HashHeader) + std::uintptr_t{header->bloom_words} * sizeof(std::uint64_t);
    const std::uintptr_t chains = buckets + std::uintptr_t{header->buckets} * sizeof(hash);
    const auto first =
        memory.value<std::uint32_t>(buckets + std::uintptr_t{hash % header->buckets} * sizeof(hash));
    if (!first || *first < header->first_symbol) return std::nullopt;
    for (std::uint64_t step = 0; step < kMaxChain; ++step) {
        const std::uint64_t number = *first + step;
        const auto other =
            memory.value<std::uint32_t>(chains + (number - header->first_symbol) * sizeof(hash));
        if (!other) return std::nullopt;
        if ((*other | 1) == (hash | 1)) {
            const auto symbol = memory.value<Elf64_Sym>(tables.symbols + number * sizeof(Elf64_Sym));
            if (symbol && is_name(memory, tables.names + symbol->st_name, name)) return symbol;
        }
        if ((*other & 1) != 0) break;
    }
    return std::nullopt;
}

// Returns the symbol of that name in a table of symbols and one of names.
std::optional<Elf64_Sym> find_in_tables(const MemoryReader& file, const Elf64_Shdr& symbols,
                                        const Elf64_Shdr& names, std::string_view name) {
    const std::uint64_t count = symbols.sh_size / sizeof(Elf64_Sym);
    if (count > kMaxSymbols || names.sh_size > kMaxNames) return std::nullopt;
    std::vector<char> text(names.sh_size);
    if (!read_all(file, names.sh_offset, text)) return std::nullopt;
    const std::string wanted = std::string(name) + '\0';
    for (std::uint64_t next = 0; next < count; next += kSymbolsAtOnce) {
        std::vector<Elf64_Sym> some(std::min<std::uint64_t>(count - next, kSymbolsAtOnce));
        if (!read_all(file, symbols.sh_offset + next * sizeof(Elf64_Sym), some)) return std::nullopt;
        for (const auto& symbol : some) {
            if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < text.size() &&
                std::string_view(text.data(), text.size()).substr(symbol.st_name).starts_with(wanted))
                return symbol;
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::uintptr_t> mapped_symbol(const MemoryReader& memory, std::uintptr_t base,
                                            std::string_view name) {
    const auto segments = segments_of(memory, base);
    const auto bias = bias_of(segments, base);
    if (!bias) return std::nullopt;
    const auto tables = dynamic_tables(memory, segments, *bias);
    if (tables.hashes == 0 || tables.symbols == 0 || tables.names == 0) return std::nullopt;
    const auto symbol = find_by_hash(memory, tables, name);
    if (!symbol || symbol->st_shndx == SHN_UNDEF) return std::nullopt;
    return *bias + symbol->st_value;
}

std::optional<std::uintptr_t> file_symbol(const MemoryReader& memory, std::uintptr_t base,
                                          const MemoryReader& file, std::string_view name,
                                          std::string_view or_section) {
    const auto bias = bias_of(segments_of(memory, base), base);
    const auto header = header_of(file, 0);
    if (!bias || !header || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > kMaxSections)
        return std::nullopt;
    std::vector<Elf64_Shdr> sections(header->e_shnum);
    if (!read_all(file, header->e_shoff, sections)) return std::nullopt;
    int tables = 0;
    for (const auto& section : sections) {
        const bool has_symbols = section.sh_type == SHT_DYNSYM || section.sh_type == SHT_SYMTAB;
        if (!has_symbols || section.sh_link >= sections.size() || ++tables > kMaxTables) continue;
        const auto symbol = find_in_tables(file, section, sections[section.sh_link], name);
        if (symbol) return *bias + symbol->st_value;
    }
    if (header->e_shstrndx >= sections.size()) return std::nullopt;
    const auto names = sections[header->e_shstrndx].sh_offset;
    for (const auto& section : sections)
        if (section.sh_addr != 0 && is_name(file, names + section.sh_name, or_section))
            return *bias + section.sh_addr;
    return std::nullopt;
}

}  // namespace launch
}  // namespace ddprun
