#include "launcher/jobs/jobs_place.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

#include "launcher/harmless_text.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline launch {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPrivate = 0700;
constexpr mode_t kOthers = 077;
constexpr mode_t kOthersWrite = 022;
constexpr std::size_t kMaxPointer = 4096;

std::string shown(const fs::path& path) { return "'" + harmless_line(path.string()) + "'"; }

void refuse(const fs::path& folder, const std::string& why) {
    fail(Errc::refused,
         fmt::format("{} cannot hold detached jobs: {}; remove it, or set XDG_RUNTIME_DIR to a "
                     "folder of your own",
                     shown(folder), why));
}

fs::path named(const JobsPlace& place, const char* variable) {
    const auto value = place.environment.find(variable);
    const fs::path path = value == place.environment.end() ? "" : value->second;
    return path.is_absolute() ? path : fs::path();
}

std::optional<fs::path> runtime_folder(const JobsPlace& place) {
    const fs::path runtime = named(place, "XDG_RUNTIME_DIR");
    struct stat info {};
    const bool is_own = !runtime.empty() && ::stat(runtime.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
                        info.st_uid == place.uid;
    return is_own ? std::optional(runtime / "ddprun") : std::nullopt;
}

fs::path usual_folder(const JobsPlace& place) { return place.shared / fmt::format("ddprun-{}", place.uid); }

bool is_taken(const fs::path& folder, uid_t uid) {
    struct stat info {};
    return ::lstat(folder.c_str(), &info) == 0 && info.st_uid != uid;
}

// The folder that the pointer is in; empty without a home.
fs::path config_folder(const JobsPlace& place) {
    if (const fs::path config = named(place, "XDG_CONFIG_HOME"); !config.empty()) return config / "ddprun";
    const fs::path home = named(place, "HOME");
    return home.empty() ? home : home / ".config" / "ddprun";
}

fs::path pointer_of(const JobsPlace& place) { return config_folder(place) / ("jobs-folder-" + host_name()); }

bool is_own(const fs::path& path, mode_t kind, mode_t forbidden, uid_t uid) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 && (info.st_mode & S_IFMT) == kind && info.st_uid == uid &&
           (info.st_mode & forbidden) == 0;
}

// The folder that was made beside the one that somebody else has; nothing if it is gone, as after a reboot, or if what
// names it, or itself, may be another user's work.
std::optional<fs::path> pointed_folder(const JobsPlace& place) {
    const fs::path config = config_folder(place);
    if (config.empty() || !is_own(config, S_IFDIR, kOthersWrite, place.uid) ||
        !is_own(pointer_of(place), S_IFREG, kOthers, place.uid))
        return std::nullopt;
    auto text = read_small_file(pointer_of(place), kMaxPointer);
    if (!text || !text->ends_with('\n')) return std::nullopt;
    text->pop_back();
    return is_own(*text, S_IFDIR, kOthers, place.uid) ? std::optional<fs::path>(*text) : std::nullopt;
}

[[noreturn]] void cannot_point(const boost::system::error_code& why, const JobsPlace& place) {
    throw Error(
        why, fmt::format("{} is another user's, and where detached jobs are instead cannot be written to {}: "
                         "{}; set XDG_RUNTIME_DIR to a folder of your own",
                         shown(usual_folder(place)), shown(pointer_of(place)), why.message()));
}

fs::path make_beside(const JobsPlace& place) {
    const fs::path config = config_folder(place);
    if (config.empty())
        refuse(usual_folder(place),
               "it is another user's, and without HOME none beside it could be found again");
    std::error_code trouble;
    fs::create_directories(config.parent_path(), trouble);
    if (!trouble && ::mkdir(config.c_str(), kPrivate) != 0 && errno != EEXIST)
        trouble = {errno, std::system_category()};
    if (!trouble && !is_own(config, S_IFDIR, kOthersWrite, place.uid))
        trouble = {EPERM, std::system_category()};
    if (trouble) cannot_point(trouble, place);
    std::string folder = usual_folder(place).string() + "-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) fail_errno(errno, "cannot make " + shown(folder));
    // A file there with permissions for others would not be believed.
    ::unlink(pointer_of(place).c_str());
    if (const auto error = replace_file(pointer_of(place), folder + "\n")) {
        ::rmdir(folder.c_str());
        cannot_point(error, place);
    }
    return folder;
}

}  // namespace

fs::path find_jobs_folder(const JobsPlace& place) {
    if (const auto folder = runtime_folder(place)) return *folder;
    if (const auto folder = pointed_folder(place)) return *folder;
    return is_taken(usual_folder(place), place.uid) ? fs::path() : usual_folder(place);
}

fs::path make_jobs_folder(const JobsPlace& place) {
    fs::path folder = find_jobs_folder(place);
    if (folder.empty()) return make_beside(place);
    if (::mkdir(folder.c_str(), kPrivate) != 0 && errno != EEXIST)
        fail_errno(errno, "cannot make " + shown(folder));
    is_private_folder(folder);
    return folder;
}

bool is_private_folder(const fs::path& folder) {
    struct stat info {};
    if (::lstat(folder.c_str(), &info) != 0) {
        if (errno == ENOENT) return false;
        fail_errno(errno, "cannot look at " + shown(folder));
    }
    if (S_ISLNK(info.st_mode)) refuse(folder, "it is a symbolic link");
    if (!S_ISDIR(info.st_mode)) refuse(folder, "it is no folder");
    if (info.st_uid != ::geteuid()) refuse(folder, fmt::format("it belongs to uid {}", info.st_uid));
    if ((info.st_mode & kOthers) != 0) refuse(folder, "others than its owner have permissions for it");
    return true;
}

}  // namespace ddprun::inline launch
