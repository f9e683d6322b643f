#include "launcher/program_fault.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "launcher/harmless_text.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as the system follows

std::string link_target(const fs::path& link) {
    std::error_code ignored;
    return fs::read_symlink(link, ignored).string();
}

// Returns the part of a path behind which the system did not get, for this error: a folder, or what is none.
std::string obstacle_on(const fs::path& path, int error, int links = kMostLinks) {
    fs::path at;
    for (const fs::path& part : path) {
        const fs::path next = at / part;
        struct stat info {};
        const bool is_found = ::stat(next.c_str(), &info) == 0;
        if (is_found && error == ENOTDIR && !S_ISDIR(info.st_mode)) return next.string();
        if (!is_found && errno == error) {
            const std::string target = links > 0 ? link_target(next) : "";
            return target.empty() ? at.string() : obstacle_on(at / target, error, links - 1);
        }
        at = next;
    }
    return path.parent_path().string();
}

std::string shown_path(const std::string& path) { return harmless_line(path.empty() ? "." : path); }

// A shell ends with 127 where nothing is there, and with 126 for all else.
ProgramFault fault_of_error(const std::string& path, int error) {
    switch (error) {
        case ENOENT: {
            const std::string target = link_target(path);
            return {target.empty()
                        ? "no such file"
                        : fmt::format("it is a link to {}, which is not there", shown_path(target)),
                    kExitNotFound};
        }
        case EACCES:
            return {fmt::format("permission denied: the folder {} may not be entered",
                                shown_path(obstacle_on(path, error))),
                    kExitNotExecutable};
        case ENOTDIR: return {shown_path(obstacle_on(path, error)) + " is no folder", kExitNotExecutable};
        case ELOOP: return {"its links lead in a circle", kExitNotExecutable};
        case ENAMETOOLONG: return {"its name is longer than the system takes", kExitNotExecutable};
        default: return {std::generic_category().message(error), kExitNotExecutable};
    }
}

bool is_bare(const std::string& name) { return name.find('/') == name.npos; }

}  // namespace

std::optional<ProgramFault> missing_fault(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) return std::nullopt;
    return fault_of_error(path, errno);
}

std::optional<ProgramFault> reading_fault(const std::string& path) {
    if (auto fault = missing_fault(path)) return fault;
    std::error_code ignored;
    const bool is_folder = fs::is_directory(path, ignored);
    if (::access(path.c_str(), is_folder ? X_OK : R_OK) == 0) return std::nullopt;
    return ProgramFault{fmt::format("permission denied: it may not be {}", is_folder ? "entered" : "read"),
                        kExitNotExecutable};
}

ProgramFault fault_of(const UnfitFile& file) {
    const bool is_plain = file.name.find_first_of(" \t\n'\"\\$`&|;<>()*?[]#~!") == file.name.npos;
    const std::string name = is_plain ? shown_path(file.name) : "FILE";
    const std::string typed =
        file.runner.empty() ? "" : fmt::format("type {} {}", shown_path(file.runner), name);
    std::string text =
        is_bare(file.name) ? "not found on PATH, and not executable here" : "it is not executable";
    std::string remedy = typed;
    if (file.is_noexec) {
        text = "its file system is mounted noexec";
        if (typed.empty()) remedy = "put it elsewhere";
    } else if (file.is_read_only) {
        text += ", and its file system is mounted read-only";
        if (typed.empty()) remedy = "put it elsewhere";
    } else if (!file.is_ours) {
        text += ", and only its owner can make it so";
    } else if (!file.runs_by_itself) {
        text += ", and no first line (#!) names what runs it";
    } else {
        remedy = "chmod +x makes it so";
        if (is_bare(file.name)) remedy += ", for ./" + name;
        if (!typed.empty()) remedy += "; or " + typed;
    }
    const bool is_told = !typed.empty() && remedy.ends_with(typed);
    return {remedy.empty() ? text : text + "; " + remedy, kExitNotExecutable,
            is_told ? file.runner.substr(0, file.runner.find(' ')) : ""};
}

std::string runner_by_ending(const std::string& name) {
    constexpr std::pair<std::string_view, const char*> kRunners[] = {
        {".py", "python3"}, {".sh", "bash"},   {".bash", "bash"}, {".ksh", "ksh"},  {".zsh", "zsh"},
        {".csh", "csh"},    {".tcsh", "tcsh"}, {".fish", "fish"}, {".pl", "perl"},  {".rb", "ruby"},
        {".R", "Rscript"},  {".r", "Rscript"}, {".jl", "julia"},  {".lua", "lua"},  {".js", "node"},
        {".mjs", "node"},   {".cjs", "node"},  {".php", "php"},   {".tcl", "tclsh"}};
    const auto found = std::find_if(std::begin(kRunners), std::end(kRunners),
                                    [&name](const auto& row) { return name.ends_with(row.first); });
    return found == std::end(kRunners) ? "" : found->second;
}

ProgramFault execution_fault(const std::string& name, const std::string& runner) {
    struct stat info {};
    struct statvfs mount {};
    const int error = ::stat(name.c_str(), &info) == 0 ? 0 : errno;
    if (error == 0 && S_ISDIR(info.st_mode))
        return reading_fault(name).value_or(ProgramFault{"it is a directory", kExitNotExecutable});
    const bool is_file = error == 0 && S_ISREG(info.st_mode);
    const bool is_unfit = is_file && ::access(name.c_str(), X_OK) != 0;
    if (is_bare(name) && !is_unfit) return {"not found on PATH", kExitNotFound};
    if (const auto fault = reading_fault(name)) return *fault;
    if (!is_unfit) return {"it is no file that can be executed", kExitNotExecutable};
    if (::statvfs(name.c_str(), &mount) != 0) mount = {};
    const std::string by_ending = runner_by_ending(name);
    return fault_of({.name = name,
                     .runner = runner.empty() ? by_ending : runner,
                     .runs_by_itself = !runner.empty() || by_ending.empty() || name.ends_with(".sh"),
                     .is_ours = info.st_uid == ::geteuid() || ::geteuid() == 0,
                     .is_noexec = (mount.f_flag & ST_NOEXEC) != 0,
                     .is_read_only = (mount.f_flag & ST_RDONLY) != 0});
}

}  // namespace launch
}  // namespace ddprun
