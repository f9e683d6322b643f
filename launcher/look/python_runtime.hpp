// find_python() finds the interpreter in a process: where its _PyRuntime is, and of which version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/look/mappings.hpp"
#include "launcher/look/memory_reader.hpp"

namespace ddprun {
inline namespace launch {

struct PythonRuntime {
    std::uintptr_t address = 0;  // of _PyRuntime
    // version: as PY_VERSION_HEX; of the file's name (kUnknownMicro, a final release) where nothing else
    // tells it.
    std::uint32_t version = 0;
    bool is_debug_build = false;  // by the file's name
    std::string file;             // the program or library that has it
};

// PythonName is what a file's name tells: "libpython3.8d.so.1.0", "python3.12", "python3", "python".
struct PythonName {
    bool is_library = false;
    std::uint32_t version = 0;  // 0: not told
    bool is_debug_build = false;
};

// Returns nothing for a path that no interpreter has. Pure.
std::optional<PythonName> interpreter_name(std::string_view path);

// Returns nothing for a process without Python. Symbols are looked for in memory; what is not there is looked
// for in the file, by its path, else by that behind `root`: "/proc/12/root". No file is opened if `root` is
// empty.
std::optional<PythonRuntime> find_python(const MemoryReader& memory, const std::vector<Mapping>& mappings,
                                         const std::string& root);

}  // namespace launch
}  // namespace ddprun
