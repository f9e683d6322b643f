#include "launcher/look/native/module_files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "launcher/look/architecture.hpp"
#include "launcher/look/mounts.hpp"
#include "launcher/look/native/symbol_name.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/small_file.hpp"

// What libdw's archive would bring along, and is never called here: readers of compressed files, a client for
// servers of debug information (for which each start of this program would look), disassemblers, and other
// processors. Without them the archive needs no library but libelf and zlib, and the program is smaller by a
// third of a megabyte.
extern "C" long ddprun_part_of_libdw_left_out() { return -1; }
extern "C" void* ddprun_processor_left_out() { return nullptr; }
#if defined(__aarch64__)
#define DDPRUN_OTHER_PROCESSOR "x86_64"
#else
#define DDPRUN_OTHER_PROCESSOR "aarch64"
#endif
asm(R"(
    .macro left_out name by
    .globl \name
    .hidden \name
    .set \name, \by
    .endm
    .irp name, gunzip, bunzip2, unlzma
    left_out __libdw_\name, ddprun_part_of_libdw_left_out
    .endr
    left_out __libdwfl_debuginfod_end, ddprun_part_of_libdw_left_out
    .irp name, i386, x86_64, bpf, riscv
    left_out \name\()_disasm, ddprun_part_of_libdw_left_out
    .endr
    .irp name, )" DDPRUN_OTHER_PROCESSOR
    R"(, i386, sh, ia64, alpha, arm, sparc, ppc, ppc64, s390, m68k, bpf, riscv, csky
    left_out \name\()_init, ddprun_processor_left_out
    .endr
    left_out csky_init, ddprun_processor_left_out
)");

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxMounts = 4UL * 1024 * 1024;
constexpr std::string_view kKernelPage = "[vdso]";
constexpr auto kOwnMachine = kOwnArchitecture == Architecture::x86_64 ? EM_X86_64 : EM_AARCH64;

bool is_for_own_machine(Elf* elf) {
    GElf_Ehdr header;
    return gelf_getehdr(elf, &header) != nullptr && header.e_machine == kOwnMachine &&
           header.e_ident[EI_CLASS] == ELFCLASS64;
}

int find_nothing(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
    return -1;
}

// The name of the best symbol so far for one address: the smallest function that holds it, else the last one
// before it that has no size.
struct BestSymbol {
    std::string name;
    std::uint64_t size = ~std::uint64_t{0};
    std::uint64_t begin = 0;

    bool takes(const GElf_Sym& symbol, std::uint64_t begin_here, std::uint64_t address) const {
        if (symbol.st_size != 0) return address - begin_here < symbol.st_size && symbol.st_size < size;
        return size == ~std::uint64_t{0} && begin_here >= begin;
    }
};

// Looks through one table of symbols for all addresses at once: tables have up to a million.
void search_table(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, GElf_Addr bias,
                  const std::map<Dwarf_Addr, std::size_t>& places, std::vector<BestSymbol>& best) {
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || header.sh_entsize == 0) return;
    const auto count = static_cast<int>(data->d_size / sizeof(Elf64_Sym));
    for (int number = 0; number < count; ++number) {
        GElf_Sym symbol;
        if (gelf_getsym(data, number, &symbol) == nullptr) return;
        const auto type = GELF_ST_TYPE(symbol.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
        const GElf_Addr begin = symbol.st_value + bias;
        for (auto place = places.lower_bound(begin); place != places.end(); ++place) {
            if (symbol.st_size != 0 && place->first - begin >= symbol.st_size) break;
            BestSymbol& found = best[place->second];
            if (!found.takes(symbol, begin, place->first)) continue;
            const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
            if (name == nullptr || *name == '\0') continue;
            found.name = name;
            found.begin = begin;
            if (symbol.st_size != 0) found.size = symbol.st_size;
        }
    }
}

}  // namespace

std::vector<Module> modules_of(const std::vector<Mapping>& mappings) {
    std::vector<Module> modules;
    std::vector<bool> has_code;
    for (const Mapping& mapping : mappings) {
        if (!mapping.path.starts_with('/') && mapping.path != kKernelPage) continue;
        const bool goes_on = !modules.empty() && modules.back().path == mapping.path && mapping.offset != 0;
        if (!goes_on) {
            modules.push_back({mapping.path, mapping.begin});
            has_code.push_back(false);
        }
        modules.back().end = mapping.end;
        if (mapping.permissions.find('x') != std::string::npos) has_code.back() = true;
    }
    std::size_t number = 0;
    std::erase_if(modules, [&](const Module&) { return !has_code[number++]; });
    return modules;
}

ModuleFiles::ModuleFiles(const NativeScope& scope, const std::vector<Mapping>& mappings) : scope_(scope) {
    static const Dwfl_Callbacks kCallbacks = {find_file, find_nothing, nullptr, nullptr};
    elf_version(EV_CURRENT);
    if (!scope.avoided_mounts.empty()) {
        auto mounts = read_small_file(fmt::format("{}/{}/mountinfo", scope.proc, scope.pid), kMaxMounts);
        if (mounts.has_value()) mounts_ = std::move(*mounts);
    }
    dwfl_ = dwfl_begin(&kCallbacks);
    if (dwfl_ == nullptr) return;
    dwfl_report_begin(dwfl_);
    for (Module& module : modules_of(mappings)) {
        Dwfl_Module* reported = dwfl_report_module(dwfl_, module.path.c_str(), module.begin, module.end);
        void** userdata = nullptr;
        if (reported == nullptr) continue;
        dwfl_module_info(reported, &userdata, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
        *userdata = this;
    }
    dwfl_report_end(dwfl_, nullptr, nullptr);
}

ModuleFiles::~ModuleFiles() {
    if (dwfl_ != nullptr) dwfl_end(dwfl_);
}

// By the process's own root first: the same path may be another file here.
int ModuleFiles::open(const std::string& path) const {
    if (has_passed(scope_.deadline)) return -1;
    const auto& avoided = scope_.avoided_mounts;
    if (!avoided.empty() &&
        std::find(avoided.begin(), avoided.end(), mount_of(mounts_, path)) != avoided.end())
        return -1;
    for (const std::string& place : {fmt::format("{}/{}/root{}", scope_.proc, scope_.pid, path), path}) {
        OwnedDescriptor file(::open(place.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
        struct stat status {};
        if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) return file.release();
    }
    return -1;
}

// libdw owns what this returns.
int ModuleFiles::find_file(Dwfl_Module*, void** userdata, const char* name, Dwarf_Addr, char**, Elf** elf) {
    const auto* files = static_cast<const ModuleFiles*>(*userdata);
    if (files == nullptr) return -1;
    int file = -1;
    if (name == kKernelPage) {
        constexpr std::size_t kPages = 8192;  // its ELF file says how much of them is used
        auto* page =
            reinterpret_cast<char*>(::getauxval(AT_SYSINFO_EHDR));  // NOLINT(performance-no-int-to-ptr)
        *elf = page == nullptr ? nullptr : elf_memory(page, kPages);
    } else {
        file = files->open(name);
        *elf = file < 0 ? nullptr : elf_begin(file, ELF_C_READ, nullptr);
    }
    if (*elf != nullptr && is_for_own_machine(*elf)) return file;
    elf_end(*elf);
    *elf = nullptr;
    if (file >= 0) ::close(file);
    return -1;
}

std::vector<std::string> ModuleFiles::names_at(Dwfl_Module* module,
                                               const std::vector<Dwarf_Addr>& addresses) const {
    std::vector<BestSymbol> best(addresses.size());
    std::map<Dwarf_Addr, std::size_t> places;
    for (const Dwarf_Addr address : addresses) places.emplace(address, places.size());
    GElf_Addr bias = 0;
    Elf* elf = dwfl_module_getelf(module, &bias);
    for (Elf_Scn* section = nullptr; elf != nullptr && (section = elf_nextscn(elf, section)) != nullptr;) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == nullptr || has_passed(scope_.deadline)) break;
        if (header.sh_type == SHT_SYMTAB || header.sh_type == SHT_DYNSYM)
            search_table(elf, section, header, bias, places, best);
    }
    Dwarf_Addr begin = 0;
    const char* path = dwfl_module_info(module, nullptr, &begin, nullptr, nullptr, nullptr, nullptr, nullptr);
    const std::string file =
        path == nullptr ? std::string() : std::filesystem::path(path).filename().string();
    std::vector<std::string> names;
    for (const Dwarf_Addr address : addresses) {
        const std::string& name = best[places.at(address)].name;
        names.push_back(name.empty() ? fmt::format("{}+{:#x}", file, address - begin) : function_name(name));
    }
    return names;
}

}  // namespace launch
}  // namespace ddprun
