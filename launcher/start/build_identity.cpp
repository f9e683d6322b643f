#include "launcher/start/build_identity.hpp"

#include <elf.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

namespace ddprun::inline launch {
namespace {

constexpr const char* kOwnLink = "/proc/self/exe";

// Looks in what is mapped of one note segment; empty: the id is not there.
std::string id_in_notes(std::string_view notes) {
    const auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
    ElfW(Nhdr) head{};
    while (notes.size() >= sizeof head) {
        std::memcpy(&head, notes.data(), sizeof head);
        const std::size_t begin = sizeof head + padded(head.n_namesz);
        const std::size_t size = begin + padded(head.n_descsz);
        if (size > notes.size()) break;
        const bool is_gnus = notes.substr(sizeof head, head.n_namesz) == std::string_view("GNU\0", 4);
        if (head.n_type == NT_GNU_BUILD_ID && is_gnus) {
            std::string id;
            for (const char byte : notes.substr(begin, head.n_descsz))
                id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
            return id;
        }
        notes.remove_prefix(size);
    }
    return {};
}

// The first object is the program itself.
int note_id(dl_phdr_info* object, std::size_t, void* found) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
        const ElfW(Phdr)& segment = object->dlpi_phdr[i];
        if (segment.p_type != PT_NOTE) continue;
        const auto* begin = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
        std::string id = id_in_notes({begin, segment.p_memsz});
        if (id.empty()) continue;
        *static_cast<std::string*>(found) = std::move(id);
        break;
    }
    return 1;
}

}  // namespace

std::string build_identity() {
    std::string id;
    ::dl_iterate_phdr(note_id, &id);
    struct stat file {};
    // Linked without one: a file of that size and time is hardly another build's.
    if (id.empty() && ::stat(kOwnLink, &file) == 0)
        id = fmt::format("{}.{}", file.st_size, file.st_mtim.tv_sec);
    return fmt::format("{}-{}", DDPRUN_VERSION, id);
}

std::string own_program() {
    std::error_code gone;
    const auto path = std::filesystem::read_symlink(kOwnLink, gone);
    struct stat named {};
    struct stat ours {};
    const bool is_there = !gone && ::stat(path.c_str(), &named) == 0 && ::stat(kOwnLink, &ours) == 0;
    // Another build may have taken its name.
    const bool is_same = is_there && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
    return is_same ? path.string() : "";
}

std::string own_executable() {
    const std::string path = own_program();
    return path.empty() ? kOwnLink : path;
}

std::uint64_t own_program_size() {
    struct stat ours {};
    return ::stat(kOwnLink, &ours) == 0 ? static_cast<std::uint64_t>(ours.st_size) : 0;
}

std::string own_program_bytes() {
    std::ifstream program(kOwnLink, std::ios::binary);
    return {std::istreambuf_iterator<char>(program), {}};
}

}  // namespace ddprun::inline launch
