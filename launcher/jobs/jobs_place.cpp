#include "launcher/jobs/jobs_place.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "launcher/harmless_text.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kPrivate = 0700;
constexpr mode_t kOthers = 077;
void refuse(const fs::path& folder, const std::string& why) {
    fail(Errc::refused, fmt::format("{} cannot hold jobs: {}; remove it, or set {} to a folder of your own",
                                    shown_path(folder), why, kJobsVariable));
}

fs::path usual_folder(const JobsPlace& place) { return place.shared / fmt::format("ddprun-{}", place.uid); }

bool is_private(const fs::path& folder, uid_t uid) {
    struct stat info {};
    return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == uid &&
           (info.st_mode & kOthers) == 0;
}

// Returns the folder that was made beside the usual one; empty: none is there, as after a reboot. Nobody else
// can make one that is this user's.
fs::path folder_beside(const JobsPlace& place) {
    const std::string begin = usual_folder(place).filename().string() + "-";
    fs::path first;
    for (const fs::path& folder : folders_in(place.shared)) {
        const bool is_one = folder.filename().string().starts_with(begin) && is_private(folder, place.uid);
        if (is_one && (first.empty() || folder < first)) first = folder;
    }
    return first;
}

fs::path make_beside(const JobsPlace& place) {
    std::string folder = usual_folder(place).string() + "-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) fail_making(shown_path(folder));
    return folder;
}

}  // namespace

std::string shown_path(const fs::path& path) { return "'" + harmless_line(path.string()) + "'"; }

void fail_making(const std::string& what) {
    // Whoever follows the advice needs to know that ddpctl goes by the variable, too.
    fail_errno(errno, fmt::format("cannot make {} ({} may name another folder, here and for ddpctl)", what,
                                  kJobsVariable));
}

std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> found;
    std::error_code none;
    for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none)) {
        std::error_code vanished;
        if (fs::is_directory(entry->symlink_status(vanished))) found.push_back(entry->path());
    }
    return found;
}

fs::path find_jobs_folder(const JobsPlace& place) {
    const std::string* named = find_variable(place.environment, kJobsVariable);
    if (named != nullptr && !named->empty()) return fs::absolute(*named) / "ddprun";
    const fs::path usual = usual_folder(place);
    struct stat info {};
    const bool is_there = ::lstat(usual.c_str(), &info) == 0;
    if (is_there && info.st_uid == place.uid) return usual;
    const fs::path beside = folder_beside(place);
    return beside.empty() && !is_there ? usual : beside;
}

fs::path make_jobs_folder(const JobsPlace& place) {
    fs::path folder = find_jobs_folder(place);
    if (folder.empty()) return make_beside(place);
    if (::mkdir(folder.c_str(), kPrivate) != 0 && errno != EEXIST) fail_making(shown_path(folder));
    is_private_folder(folder);
    return folder;
}

bool is_private_folder(const fs::path& folder) {
    const OwnedDescriptor held(::open(folder.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!held && errno == ENOENT) return false;
    if (!held || ::fstat(held.get(), &info) != 0) fail_errno(errno, "cannot look at " + shown_path(folder));
    if (S_ISLNK(info.st_mode)) refuse(folder, "it is a symbolic link");
    if (!S_ISDIR(info.st_mode)) refuse(folder, "it is no folder");
    if (info.st_uid != ::geteuid()) refuse(folder, fmt::format("it belongs to uid {}", info.st_uid));
    if ((info.st_mode & kOthers) != 0) refuse(folder, "others than its owner have permissions for it");
    // The folder's name is used, too.
    const auto open = changeable_by_others(fs::absolute(folder));
    if (open) refuse(folder, fmt::format("others can put another one there, by {}", shown_path(*open)));
    return true;
}

}  // namespace launch
}  // namespace ddprun
