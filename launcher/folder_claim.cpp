#include "launcher/folder_claim.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace ddprun::inline launch {
namespace {

// Not in linux/magic.h.
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

}  // namespace

FolderClaim::FolderClaim(const std::filesystem::path& folder) : lock_(open_folder(folder)) {
    struct flock lock = whole(F_RDLCK);
    if (lock_ && ::fcntl(lock_.get(), F_OFD_SETLK, &lock) != 0) lock_.reset();
}

ClaimState claim_on(const std::filesystem::path& folder) {
    const OwnedDescriptor look = open_folder(folder);
    if (!look || !is_local(look.get())) return ClaimState::unknown;
    struct flock lock = whole(F_WRLCK);
    if (::fcntl(look.get(), F_OFD_GETLK, &lock) != 0) return ClaimState::unknown;
    return lock.l_type == F_UNLCK ? ClaimState::free : ClaimState::held;
}

}  // namespace ddprun::inline launch
