#include "apps/ddprun/plan/own_python.hpp"

#include <fmt/core.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/plan/program.hpp"
#include "launcher/process/child_exec.hpp"
#include "launcher/start/remote_shell.hpp"

namespace ddprun {
inline namespace app {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as the system follows
constexpr std::array<std::string_view, 2> kPythonNames = {"python3", "python"};
// Whoever installs something for all users may have put it beside a Python that is not its own.
constexpr std::array<std::string_view, 8> kSharedFolders = {
    "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/snap/bin", "/opt/bin"};

// The same place without `.` in it, which would stand for a folder of its own; `..` is not for a text to
// shorten.
fs::path without_dots(const fs::path& path) {
    fs::path shorter;
    for (const fs::path& part : path) {
        if (part != ".") shorter /= part;
    }
    return shorter;
}

// The program's names, from the one that it was called by to that of its file.
std::vector<fs::path> names_of(const std::string& program) {
    std::error_code unknown;
    std::vector<fs::path> names;
    fs::path name = program.empty() ? fs::path() : without_dots(fs::absolute(program, unknown));
    while (!name.empty() && names.size() < kMostLinks) {
        names.push_back(name);
        const fs::path target = fs::read_symlink(name, unknown);
        if (unknown) break;
        name = without_dots(name.parent_path() / target);
        // Behind a link `..` is what the link's folder lies in; without one the user's names stay.
        if (std::find(target.begin(), target.end(), "..") == target.end()) continue;
        const fs::path folder = fs::canonical(name.parent_path(), unknown);
        if (unknown) break;
        name = folder / name.filename();
    }
    if (const fs::path file = fs::canonical(program, unknown); !unknown) names.push_back(file);
    return names;
}

std::string python_in(const fs::path& folder) {
    const auto found = std::find_if(kPythonNames.begin(), kPythonNames.end(), [&](std::string_view name) {
        const fs::path file = folder / name;
        std::error_code unknown;
        return fs::is_regular_file(file, unknown) && ::access(file.c_str(), X_OK) == 0;
    });
    return found == kPythonNames.end() ? "" : (folder / *found).string();
}

// A user's own folder is shared in the same way: what pip, pipx and uv install comes together there.
bool is_shared(const fs::path& folder) {
    std::error_code unknown;
    const auto is_folder = [&](const fs::path& shared) { return fs::equivalent(folder, shared, unknown); };
    const fs::path prefix = folder.parent_path();
    return prefix.filename() == ".local" || prefix == prefix.root_path() ||
           std::any_of(kSharedFolders.begin(), kSharedFolders.end(), is_folder);
}

// The version's folder of packages is named like the file behind the link: python3.12.
bool has_our_package(const std::string& python) {
    std::error_code unknown;
    const fs::path file = fs::canonical(python, unknown);
    const fs::path prefix = fs::path(python).parent_path().parent_path();
    return !unknown && fs::exists(prefix / "lib" / file.filename() / "site-packages" / "ddprun", unknown);
}

// The system's Python that the link leads to has another name once it has been upgraded.
std::string lost_python_in(const fs::path& folder) {
    std::error_code unknown;
    if (!fs::exists(folder.parent_path() / "pyvenv.cfg", unknown)) return {};
    const auto lost = std::find_if(kPythonNames.begin(), kPythonNames.end(), [&](std::string_view name) {
        return fs::is_symlink(folder / name, unknown) && !fs::exists(folder / name, unknown);
    });
    return lost == kPythonNames.end() ? "" : (folder / *lost).string();
}

bool is_environment(const fs::path& folder, const std::string& python) {
    std::error_code unknown;
    return fs::exists(folder.parent_path() / "pyvenv.cfg", unknown) || !is_shared(folder) ||
           has_our_package(python);
}

bool lie_together(const std::string& one, const std::string& other) {
    std::error_code unknown;
    return fs::equivalent(fs::path(one).parent_path(), fs::path(other).parent_path(), unknown);
}

// The name that this process was started by where that is the launcher's, else its file's.
std::string own_name() {
    const std::string file = own_program();
    const auto* called = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
    if (called == nullptr) return file;
    std::error_code unknown;
    // A script's first line that names this launcher has the script's name there.
    bool is_ours = !file.empty() && fs::equivalent(called, file, unknown);
    // Where /proc does not tell the file, this name is all there is; a relative one may be from another
    // folder.
    if (file.empty() && fs::path(called).is_absolute()) is_ours = look_at_program(called, called).is_binary;
    return is_ours ? called : file;
}

}  // namespace

std::string python_beside(const std::string& program) {
    for (const fs::path& name : names_of(program)) {
        const std::string python = python_in(name.parent_path());
        if (!python.empty() && is_environment(name.parent_path(), python)) return python;
    }
    return {};
}

std::string own_python() { return python_beside(own_name()); }

std::string lost_python() {
    for (const fs::path& name : names_of(own_name())) {
        const std::string lost = lost_python_in(name.parent_path());
        if (lost.empty()) continue;
        return fmt::format(
            "{} of this launcher's environment is a link that leads nowhere, so that Python is PATH's; "
            "python3 -m venv --upgrade {} mends it",
            lost, fs::path(lost).parent_path().parent_path().string());
    }
    return {};
}

std::string other_python_on_path(const std::string& own, const Environment& environment) {
    const std::string* path = find_variable(environment, "PATH");
    const std::string on_path =
        find_executable("python3", path == nullptr ? std::nullopt : std::optional(*path));
    if (on_path.empty() || lie_together(own, on_path)) return {};
    return fmt::format(
        "Python is {}, of the environment that this launcher lies in, and not PATH's {}; "
        "PYTHON_EXEC={} takes that one",
        own, on_path, on_path);
}

std::string python_to_write(const std::string& own, const std::optional<std::string>& path) {
    const std::string on_path = find_executable("python3", path);
    const bool is_own = own.empty() || lie_together(own, on_path);
    return !on_path.empty() && is_own ? "python3" : own;
}

std::string python_of_words(const std::string& name, const std::string& own,
                            const std::optional<std::string>& path) {
    const std::string taken = find_executable(name, path);
    if (own.empty() || taken.empty() || lie_together(own, taken)) return {};
    return fmt::format("{} ({} on PATH), but this launcher's environment has {}", taken, name, own);
}

}  // namespace app
}  // namespace ddprun
