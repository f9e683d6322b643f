#include "launcher/look/python_runtime.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "launcher/look/bounded_reader.hpp"
#include "launcher/look/elf_file.hpp"
#include "launcher/look/python_layout.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::string_view kRuntime = "_PyRuntime";
constexpr std::size_t kMaxCandidates = 16;
constexpr std::string_view kRuntimeSection = ".PyRuntime";

// FileBytes reads a file by offsets. Pages of the file that change or vanish meanwhile are errors, unlike in
// a mapping of ours.
class FileBytes final : public MemoryReader {
  public:
    explicit FileBytes(OwnedDescriptor file) : file_(std::move(file)) {}

    bool read(std::uintptr_t address, std::span<std::byte> into) const override {
        return ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(address)) ==
               static_cast<ssize_t>(into.size());
    }

  private:
    OwnedDescriptor file_;
};

OwnedDescriptor open_regular(const std::string& path) {
    OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info {};
    if (file && (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))) file.reset();
    return file;
}

std::optional<std::uintptr_t> symbol_by_file(const MemoryReader& memory, const Mapping& mapping,
                                             const std::string& root) {
    if (root.empty()) return std::nullopt;
    for (const auto& path : {mapping.path, root + mapping.path}) {
        OwnedDescriptor file = open_regular(path);
        if (!file) continue;
        const FileBytes bytes(std::move(file));
        if (const auto place =
                file_symbol(memory, mapping.begin, BoundedReader(bytes), kRuntime, kRuntimeSection))
            return place;
    }
    return std::nullopt;
}

// The interpreter's own word, else that of its table of offsets, else the name's.
std::uint32_t version_of(const MemoryReader& memory, const Mapping& mapping, std::uintptr_t runtime,
                         const PythonName& name) {
    if (const auto place = mapped_symbol(memory, mapping.begin, "Py_Version"))
        if (const auto version = memory.value<std::uint32_t>(*place)) return *version;
    const auto offsets = memory.value<std::array<std::uint64_t, 3>>(runtime);
    if (!offsets) return name.version;
    return version_in_offsets(*offsets).value_or(name.version);
}

}  // namespace

std::optional<PythonName> interpreter_name(std::string_view path) {
    constexpr std::string_view kLibrary = "libpython3", kProgram = "python";
    std::string_view rest = path.substr(path.rfind('/') + 1);
    PythonName name;
    name.is_library = rest.starts_with(kLibrary);
    if (!name.is_library && rest != kProgram && !rest.starts_with("python3")) return std::nullopt;
    rest.remove_prefix(name.is_library ? kLibrary.size() - 1 : kProgram.size());
    if (!rest.starts_with("3.")) return name;
    rest.remove_prefix(2);
    const auto end = std::min(std::find_if_not(rest.begin(), rest.end(), is_decimal), rest.begin() + 3);
    const auto digits = static_cast<std::size_t>(end - rest.begin());
    const auto minor = whole_number<std::uint8_t>(rest.substr(0, digits));
    if (!minor) return name;
    name.version = 0x030000f0 | std::uint32_t{*minor} << 16 | kUnknownMicro << 8;
    name.is_debug_build = rest.substr(digits).starts_with('d');
    return name;
}

std::optional<PythonRuntime> find_python(const MemoryReader& memory, const std::vector<Mapping>& mappings,
                                         const std::string& root) {
    std::vector<std::pair<const Mapping*, PythonName>> candidates;
    for (const auto& mapping : mappings) {
        const auto name = mapping.offset == 0 ? interpreter_name(mapping.path) : std::nullopt;
        if (name && candidates.size() < kMaxCandidates) candidates.emplace_back(&mapping, *name);
    }
    // A program may have taken the library's _PyRuntime over; so it is asked first.
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& one, const auto& other) {
        return one.second.is_library < other.second.is_library;
    });
    for (const bool by_file : {false, true}) {
        for (const auto& [mapping, name] : candidates) {
            const auto place = by_file ? symbol_by_file(memory, *mapping, root)
                                       : mapped_symbol(memory, mapping->begin, kRuntime);
            if (place)
                return PythonRuntime{*place, version_of(memory, *mapping, *place, name), name.is_debug_build,
                                     mapping->path};
        }
    }
    return std::nullopt;
}

}  // namespace launch
}  // namespace ddprun
