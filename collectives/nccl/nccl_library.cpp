#include "collectives/nccl/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemsName = "libnccl.so.2";

std::vector<fs::path> subfolders(const fs::path& folder, std::string_view prefix) {
    std::vector<fs::path> found;
    std::error_code none;
    for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none)) {
        if (entry->path().filename().string().starts_with(prefix)) found.push_back(entry->path());
    }
    // python3.9 is older than python3.12.
    std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
        const std::string left = a.filename(), right = b.filename();
        return std::pair(left.size(), left) > std::pair(right.size(), right);
    });
    return found;
}

// A virtual environment's interpreter is a link to another one, and both have packages.
void add_prefixes(const fs::path& python, std::vector<fs::path>& prefixes) {
    std::error_code ignored;
    if (!python.is_absolute() || !fs::exists(python, ignored)) return;
    prefixes.push_back(python.parent_path().parent_path());
    prefixes.push_back(fs::canonical(python, ignored).parent_path().parent_path());
}

bool is_python(const std::string& program) {
    return fs::path(program).filename().string().starts_with("python");
}

std::string own_program() {
    std::string name;
    std::getline(std::ifstream("/proc/self/cmdline", std::ios::binary), name, '\0');
    return name;
}

}  // namespace

int NcclLibrary::checked_version() const {
    int found = 0;
    if (get_version(&found) != NcclResult::success) library.refuse("does not tell its version");
    if (found < kMinNcclVersion) {
        library.refuse(fmt::format("is version {}, but at least {} is needed", nccl_version_text(found),
                                   nccl_version_text(kMinNcclVersion)));
    }
    return found;
}

std::string packaged_nccl(const Environment& environment, const std::string& program) {
    const auto value = [&environment](const char* name) {
        const std::string* found = find_variable(environment, name);
        return found == nullptr ? std::string() : *found;
    };
    std::vector<fs::path> prefixes;
    if (is_python(program)) add_prefixes(program, prefixes);
    add_prefixes(value("PYTHON_EXEC"), prefixes);
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) prefixes.emplace_back(value(name));
    const std::string path = value("PATH"), python_path = value("PYTHONPATH"), home = value("HOME");
    for (const std::string_view folder : split_at(path, ':')) {
        const fs::path python = fs::path(folder) / "python3";
        std::error_code ignored;
        if (!fs::exists(python, ignored)) continue;
        add_prefixes(python, prefixes);
        break;
    }
    if (!home.empty()) prefixes.push_back(fs::path(home) / ".local");
    prefixes.emplace_back("/usr/local");
    std::vector<fs::path> folders;
    for (const std::string_view folder : split_at(python_path, ':')) folders.emplace_back(folder);
    for (const fs::path& prefix : prefixes) {
        if (!prefix.is_absolute()) continue;
        for (const fs::path& version : subfolders(prefix / "lib", "python3"))
            folders.insert(folders.end(), {version / "site-packages", version / "dist-packages"});
    }
    for (const fs::path& folder : folders) {
        std::error_code ignored;
        const fs::path library = folder / "nvidia/nccl/lib" / kSystemsName;
        if (folder.is_absolute() && fs::is_regular_file(library, ignored)) return library;
    }
    return {};
}

std::shared_ptr<const NcclLibrary> NcclLibrary::open(const std::string& path) {
    constexpr const char* kHelp =
        "set DDPRUN_NCCL_LIBRARY to the path of a libnccl.so.2, or use DDPRUN_BACKEND=cpu";
    std::string name = path;
    // What the program has loaded already is found by that name, too.
    if (name.empty() && ::dlopen(kSystemsName, RTLD_NOW | RTLD_LOCAL) == nullptr)
        name = packaged_nccl(current_environment(), own_program());
    return std::shared_ptr<const NcclLibrary>(
        new NcclLibrary({"NCCL", name.empty() ? kSystemsName : name, kHelp}));
}

std::string nccl_version_text(int version) {
    const int major_unit = version < 10'000 ? 1000 : 10'000;
    return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / 100, version % 100);
}

}  // namespace detail
}  // namespace ddprun
