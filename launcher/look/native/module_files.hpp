// ModuleFiles opens the files that a process has mapped as its program and libraries, for libdw. Seen by
// native_frames.cpp alone.
//
// Files are read, never mapped: one that is cut meanwhile would end this process. What is no regular file is
// not opened, nor is what lies on a mount that is avoided. The kernel's own page of code (vdso) is taken from
// this process, which has the same.
#pragma once

#include <elfutils/libdwfl.h>
#include <gelf.h>

#include <string>
#include <vector>

#include "launcher/look/mappings.hpp"
#include "launcher/look/native/native_scope.hpp"

namespace ddprun {
inline namespace launch {

// Module is a file that is mapped with code in it.
struct Module {
    std::string path;  // as the process has it
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};

// Returns the modules among the mappings, by address. Pure.
std::vector<Module> modules_of(const std::vector<Mapping>& mappings);

class ModuleFiles {
  public:
    ModuleFiles(const NativeScope& scope, const std::vector<Mapping>& mappings);
    ModuleFiles(const ModuleFiles&) = delete;
    ModuleFiles& operator=(const ModuleFiles&) = delete;
    ~ModuleFiles();

    // Returns nullptr if libdw has refused them.
    Dwfl* dwfl() const { return dwfl_; }

    // Returns the names of functions at these addresses of one module, in the same order: "name", or
    // "library+0x12" where there is no symbol.
    std::vector<std::string> names_at(Dwfl_Module* module, const std::vector<Dwarf_Addr>& addresses) const;

  private:
    static int find_file(Dwfl_Module* module, void** userdata, const char* name, Dwarf_Addr base,
                         char** file_name, Elf** elf);
    int open(const std::string& path) const;

    const NativeScope& scope_;
    std::string mounts_;
    Dwfl* dwfl_ = nullptr;
};

}  // namespace launch
}  // namespace ddprun
