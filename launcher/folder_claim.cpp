#include "launcher/folder_claim.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <dirent.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {
namespace {

// linux/magic.h lacks these.
constexpr unsigned kZfs = 0x2fc12fc1;
constexpr unsigned kBcachefs = 0xca451a4e;

constexpr std::array<unsigned, 9> kLocalFileSystems = {
    EXT4_SUPER_MAGIC, TMPFS_MAGIC, RAMFS_MAGIC, OVERLAYFS_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC, kZfs,        kBcachefs};

OwnedDescriptor open_folder(const std::filesystem::path& folder) {
    return OwnedDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_local(int fd) {
    struct statfs info {};
    if (::fstatfs(fd, &info) != 0) return false;
    const auto type = static_cast<unsigned>(info.f_type);
    return std::find(kLocalFileSystems.begin(), kLocalFileSystems.end(), type) != kLocalFileSystems.end();
}

// The lock is on the whole folder. One for reading is enough to be seen, and needs no descriptor for writing.
struct flock whole(short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    return lock;
}

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "ddprun_";
constexpr std::size_t kRandomBytes = 6;  // mkdtemp's

bool has_our_name(std::string_view name) {
    return name.size() == kPrefix.size() + kRandomBytes && name.starts_with(kPrefix) &&
           std::all_of(name.end() - kRandomBytes, name.end(),
                       [](unsigned char c) { return std::isalnum(c) != 0; });
}

// Returns names at the beginning of the folder's list that may be ours. It takes one system call: an iterator
// would read four times as much at least, which takes half a millisecond.
std::vector<std::string> first_names(const fs::path& folder, std::size_t bytes) {
    const OwnedDescriptor list(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::vector<std::uint64_t> buffer(bytes / sizeof(std::uint64_t));  // as entries are aligned
    const ssize_t size = list ? ::getdents64(list.get(), buffer.data(), bytes) : 0;
    std::vector<std::string> names;
    for (ssize_t at = 0; at < size;) {
        const auto* entry =
            reinterpret_cast<const dirent64*>(reinterpret_cast<const char*>(buffer.data()) + at);
        if (has_our_name(entry->d_name)) names.emplace_back(entry->d_name);
        at += entry->d_reclen;
    }
    return names;
}

// True if it is as mkdtemp made it, and untouched for so long.
bool is_ours_and_old(const fs::path& folder, std::chrono::hours min_age) {
    struct stat info {};
    if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
    if (info.st_uid != ::geteuid() || (info.st_mode & 0777) != 0700) return false;
    const auto now = std::chrono::system_clock::now();
    return std::chrono::system_clock::from_time_t(info.st_mtime) < now - min_age;
}

bool holds_nothing_of_worth(const fs::path& folder, std::size_t max_entries) {
    std::error_code trouble;
    std::size_t seen = 0;
    for (fs::recursive_directory_iterator entry(folder, trouble), end; !trouble && entry != end;
         entry.increment(trouble)) {
        if (++seen > max_entries) return false;
        const auto type = entry->symlink_status(trouble).type();
        const bool is_cache = entry.depth() == 0 && entry->path().filename() == kLocalCacheName;
        if (is_cache) entry.disable_recursion_pending();
        const bool error_file =
            type == fs::file_type::regular && entry->path().filename().string().ends_with("error.json");
        if (!error_file && type != fs::file_type::directory) return false;
    }
    return !trouble;
}

}  // namespace

FolderClaim::FolderClaim(const std::filesystem::path& folder) : lock_(open_folder(folder)) {
    // Elsewhere nobody asks for a claim, and a lock may be long in coming.
    if (lock_ && !is_local(lock_.get())) lock_.reset();
    struct flock lock = whole(F_RDLCK);
    if (lock_ && ::fcntl(lock_.get(), F_OFD_SETLK, &lock) != 0) lock_.reset();
    // Cleaners of temporary files (systemd-tmpfiles) leave a folder alone that has the other kind of lock.
    if (lock_) ::flock(lock_.get(), LOCK_SH | LOCK_NB);
}

ClaimState claim_on(const std::filesystem::path& folder) {
    const OwnedDescriptor look = open_folder(folder);
    if (!look || !is_local(look.get())) return ClaimState::unknown;
    struct flock lock = whole(F_WRLCK);
    if (::fcntl(look.get(), F_OFD_GETLK, &lock) != 0) return ClaimState::unknown;
    return lock.l_type == F_UNLCK ? ClaimState::free : ClaimState::held;
}

void sweep_temporary_folders(const fs::path& temporary, const SweepLimits& limits) {
    std::size_t seen = 0;
    std::size_t removed = 0;
    for (const std::string& name : first_names(temporary, limits.bytes_of_list)) {
        if (++seen > limits.max_folders_seen) return;
        const fs::path folder = temporary / name;
        if (!is_ours_and_old(folder, limits.min_age) || claim_on(folder) != ClaimState::free) continue;
        if (!holds_nothing_of_worth(folder, limits.max_entries_inside)) continue;
        std::error_code ignored;  // another launcher may be at it
        fs::remove_all(folder, ignored);
        if (++removed == limits.max_folders_removed) return;
    }
}

}  // namespace launch
}  // namespace ddprun
