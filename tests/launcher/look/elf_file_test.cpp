#include "launcher/look/elf_file.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "launcher/look/mappings.hpp"
#include "launcher/look/process_memory.hpp"
#include "launcher/look/python_runtime.hpp"
#include "tests/launcher/look/memory_image.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

// Returns where this process has the first byte of the file that holds the address.
std::uintptr_t base_of(const std::vector<Mapping>& mappings, std::uintptr_t address) {
    const auto* inside = mapping_of(mappings, address);
    REQUIRE(inside != nullptr);
    for (const auto& one : mappings)
        if (one.path == inside->path && one.offset == 0) return one.begin;
    return 0;
}

// A file of one segment, linked to 0x400000, with _PyRuntime at 0x5000 of its only table, and a section
// .PyRuntime at 0x6000.
struct SmallElf {
    Elf64_Ehdr header{};
    Elf64_Phdr segment{};
    std::array<Elf64_Shdr, 4> sections{};
    std::array<Elf64_Sym, 2> symbols{};
    std::array<char, 64> names{};

    explicit SmallElf(const char* symbol = "_PyRuntime") {
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_phoff = offsetof(SmallElf, segment);
        header.e_phentsize = sizeof segment;
        header.e_phnum = 1;
        header.e_shoff = offsetof(SmallElf, sections);
        header.e_shentsize = sizeof sections[0];
        header.e_shnum = sections.size();
        header.e_shstrndx = 2;
        segment.p_type = PT_LOAD;
        segment.p_vaddr = 0x400000;
        sections[1] = {.sh_type = SHT_SYMTAB,
                       .sh_offset = offsetof(SmallElf, symbols),
                       .sh_size = sizeof symbols,
                       .sh_link = 2};
        sections[2] = {
            .sh_type = SHT_STRTAB, .sh_offset = offsetof(SmallElf, names), .sh_size = sizeof names};
        sections[3] = {.sh_name = 32, .sh_type = SHT_PROGBITS, .sh_addr = 0x406000};
        symbols[1] = {.st_name = 1, .st_shndx = 3, .st_value = 0x405000};
        std::strcpy(names.data() + 1, symbol);
        std::strcpy(names.data() + 32, ".PyRuntime");
    }

    MemoryImage image(std::uintptr_t base = 0) const {
        MemoryImage image;
        const auto bytes = std::as_bytes(std::span(this, 1));
        image.pieces[base].assign(bytes.begin(), bytes.end());
        return image;
    }
};

// Of a file that is mapped at 0x7000000.
std::optional<std::uintptr_t> symbol_in(const MemoryImage& file, std::string_view name,
                                        std::string_view or_section) {
    return file_symbol(SmallElf().image(0x7000000), 0x7000000, file, name, or_section);
}

}  // namespace

TEST_CASE("symbols of a library in memory, by its dynamic tables") {
    const ProcessMemory memory(::getpid());
    const auto mappings = read_mappings(::getpid());
    REQUIRE(mappings.has_value());
    for (const char* name : {"getppid", "pause", "setsid", "abort"}) {
        INFO(name);
        const auto address = reinterpret_cast<std::uintptr_t>(::dlsym(RTLD_DEFAULT, name));
        CHECK(mapped_symbol(memory, base_of(*mappings, address), name) == address);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(::dlsym(RTLD_DEFAULT, "getppid"));
    const auto base = base_of(*mappings, address);
    CHECK_FALSE(mapped_symbol(memory, base, "getppi").has_value());
    CHECK_FALSE(mapped_symbol(memory, base, "getppid_").has_value());
    CHECK_FALSE(mapped_symbol(memory, base, "_PyRuntime").has_value());
    CHECK_FALSE(mapped_symbol(memory, base + 8, "getppid").has_value());
    CHECK_FALSE(mapped_symbol(memory, 8, "getppid").has_value());
}

TEST_CASE("symbols of a file, by its sections") {
    CHECK(symbol_in(SmallElf().image(), "_PyRuntime", ".PyRuntime") == 0x7005000);
    CHECK(symbol_in(SmallElf("stripped").image(), "_PyRuntime", ".PyRuntime") == 0x7006000);
    CHECK_FALSE(symbol_in(SmallElf("stripped").image(), "_PyRuntime", ".other").has_value());
    CHECK_FALSE(symbol_in(SmallElf("stripped").image(), "_PyRuntime", ".PyRun").has_value());
    CHECK_FALSE(symbol_in(SmallElf("_PyRuntimes").image(), "_PyRuntime", ".other").has_value());
    SmallElf undefined;
    undefined.symbols[1].st_shndx = SHN_UNDEF;
    CHECK(symbol_in(undefined.image(), "_PyRuntime", ".PyRuntime") == 0x7006000);
    SmallElf narrow;
    narrow.header.e_ident[EI_CLASS] = ELFCLASS32;
    CHECK_FALSE(symbol_in(narrow.image(), "_PyRuntime", ".PyRuntime").has_value());
}

TEST_CASE(
    "an interpreter whose symbols are in its file alone: its path, else that behind the process's root") {
    const auto folder = std::filesystem::temp_directory_path() / ("look_test." + std::to_string(::getpid()));
    std::filesystem::create_directories(folder / "root/bin");
    const SmallElf program;
    const auto write = [&](const std::filesystem::path& path) {
        std::ofstream(path).write(reinterpret_cast<const char*>(&program), sizeof program);
    };
    write(folder / "root/bin/python3.9");
    write(folder / "python3.9");
    auto memory = program.image(0x7000000);
    memory.pieces[0x7000000].resize(offsetof(SmallElf, sections));
    const auto find = [&](const std::string& path, const std::string& root) {
        return find_python(memory, {{0x7000000, 0x7001000, 0, "r--p", path}}, root);
    };
    const auto found = find(folder / "python3.9", "/missing");
    REQUIRE(found.has_value());
    CHECK(found->address == 0x7005000);
    CHECK(found->version == 0x0309fff0);
    CHECK(find("/bin/python3.9", folder / "root").has_value());
    CHECK_FALSE(find("/bin/python3.9", folder / "missing").has_value());
    CHECK_FALSE(find(folder / "python3.9", "").has_value());
    std::filesystem::create_directories(folder / "root/bin/python3.10");
    CHECK_FALSE(find("/bin/python3.10", folder / "root").has_value());
    std::filesystem::remove_all(folder);
}

TEST_CASE("files whose bytes are any") {
    const unsigned seed = std::random_device{}();
    CAPTURE(seed);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 20'000; ++round) {
        SmallElf elf;
        const auto bytes = std::as_writable_bytes(std::span(&elf, 1));
        for (std::uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
            const std::size_t place = random() % (bytes.size() - 8);
            const std::uint64_t value = random() >> random() % 64;
            std::memcpy(&bytes[place], &value, 1 + random() % 8);
        }
        symbol_in(elf.image(), "_PyRuntime", ".PyRuntime");
        mapped_symbol(elf.image(0x1000), 0x1000, "_PyRuntime");
    }
}

}  // namespace ddprun
