// Lets the programs run with a glibc older than the one they are built with: what the compiler's own archives
// call of it that is new, done by what is old.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>

#ifdef DLFO_STRUCT_HAS_EH_DBASE  // glibc 2.35 and later

namespace {

int take_if_inside(dl_phdr_info* object, std::size_t, void* place) {
    auto& found = *static_cast<dl_find_object*>(place);
    const auto address = reinterpret_cast<std::uintptr_t>(found.dlfo_map_start);
    const auto at = [object](const ElfW(Phdr) & part) { return object->dlpi_addr + part.p_vaddr; };
    const ElfW(Phdr)* inside = nullptr, *frames = nullptr;
    for (const auto* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part) {
        if (part->p_type == PT_GNU_EH_FRAME) frames = part;
        if (part->p_type == PT_LOAD && address - at(*part) < part->p_memsz) inside = part;
    }
    if (inside == nullptr || frames == nullptr) return 0;
    found.dlfo_map_end = reinterpret_cast<void*>(at(*inside) + inside->p_memsz);
    found.dlfo_eh_frame = reinterpret_cast<void*>(at(*frames));
    return 1;
}

}  // namespace

// Called for each frame that an exception passes. Of the result, the unwinder reads the frames' table only.
[[gnu::visibility("hidden")]] int find_object(void* address, dl_find_object* found) noexcept
    asm("_dl_find_object");

int find_object(void* address, dl_find_object* found) noexcept {
    *found = {};
    found->dlfo_map_start = address;
    return ::dl_iterate_phdr(take_if_inside, found) == 1 ? 0 : -1;
}

#endif
