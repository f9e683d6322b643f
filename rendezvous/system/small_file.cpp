#include "rendezvous/system/small_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <sstream>
#include <utility>

#include "rendezvous/base/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun {
inline namespace base {
namespace {

namespace fs = std::filesystem;
using boost::system::error_code;

constexpr mode_t kNewFileMode = 0600;
constexpr mode_t kPermissions = 0777;
constexpr mode_t kGroupPermissions = 0070;
// Most files of the kernel fit into the first piece; the next ones are as long as all before.
constexpr std::size_t kFirstPiece = 4 * 1024;
// The result of some ranks has so many; more cannot be known before.
constexpr std::size_t kTrialBytes = 4096;
// A reader that is there may leave a full pipe alone for so long.
constexpr std::chrono::milliseconds kReaderTimeout{10'000};
constexpr int kMaxLinks = 40;  // the kernel's

error_code system_error(int number) { return {number, boost::system::system_category()}; }
error_code last_error() { return system_error(errno); }

// It writes in pieces that a pipe takes whole once it takes anything, so that no write blocks: others may
// have the same description open, and expect it to be as it is.
error_code write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        pollfd room{fd, POLLOUT, 0};
        const int ready = ::poll(&room, 1, static_cast<int>(kReaderTimeout.count()));
        if (ready == 0) return system_error(ETIMEDOUT);
        const ssize_t count =
            ready < 0 ? -1 : ::write(fd, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count < 0) return last_error();
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
}

// Gives a new file the group and permissions of the one whose place it takes, if that was ours.
error_code take_permissions(int fd, const struct stat& old) {
    if (old.st_uid != ::geteuid()) return {};
    const bool same_group = ::fchown(fd, static_cast<uid_t>(-1), old.st_gid) == 0;
    const mode_t mode = old.st_mode & (same_group ? kPermissions : kPermissions & ~kGroupPermissions);
    return ::fchmod(fd, mode) == 0 ? error_code{} : last_error();
}

// `flags` say what becomes of a file that is there.
error_code write_file(const fs::path& path, int flags, std::string_view bytes, bool synced,
                      const std::optional<struct stat>& old) {
    OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, kNewFileMode));
    if (file.get() < 0) return last_error();
    if (old) {
        if (auto error = take_permissions(file.get(), *old)) return error;
    }
    if (auto error = write_all(file.get(), bytes)) return error;
    if (synced && ::fsync(file.get()) != 0) return last_error();
    return ::close(file.release()) == 0 ? error_code{} : last_error();
}

// `flags` say whether a last link is followed.
error_code write_through(const fs::path& path, int flags, std::string_view bytes) {
    OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags));
    if (file.get() < 0) return last_error();
    return write_all(file.get(), bytes);
}

// Makes the new name last. A file system without it (some network ones) has nothing better to offer.
void sync_folder(const fs::path& folder) {
    const OwnedDescriptor handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.get() >= 0) ::fsync(handle.get());
}

// Target says where the bytes of replace_file go.
struct Target {
    enum class Kind {
        replaced,
        own_stream,
        written_through,
        behind_name,  // written through, and there is no other name for it than a link of /proc
    };

    fs::path path;
    Kind kind = Kind::replaced;
    std::optional<struct stat> old = {};  // a regular file that is replaced
    int stream = -1;                      // of own_stream
};

bool same_file(const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool is_ours_or_roots(const struct stat& info) { return info.st_uid == ::geteuid() || info.st_uid == 0; }

// kUnknownUser: as whom the kernel shows all users that a user namespace does not know.
constexpr uid_t kUnknownUser = 65534;
constexpr std::size_t kMaxUserMap = 64 * 1024;

// knows_root: this user namespace has root in it. The first numbers in the map's lines are users of the
// namespace.
bool knows_root() {
    const auto map = read_small_file("/proc/self/uid_map", kMaxUserMap);
    if (!map) return true;
    std::istringstream lines(*map);
    uid_t first = 0, outside = 0, count = 0;
    while (lines >> first >> outside >> count)
        if (first == 0) return true;
    return false;
}

// may_be_roots: root's own files are an unknown user's where the namespace lacks root.
bool may_be_roots(uid_t owner) { return owner == 0 || (owner == kUnknownUser && !knows_root()); }

// is_open_folder: where somebody else than this user and root may make names. What is taken for open by
// mistake only has the owners looked at of what lies behind.
bool is_open_folder(const struct stat& info) {
    if (!S_ISDIR(info.st_mode)) return false;
    const bool is_others = info.st_uid != ::geteuid() && !may_be_roots(info.st_uid);
    return is_others || others_may_write(info);
}

fs::path folder_of(const fs::path& path) {
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Reads where a link leads. Nothing for one that somebody else may have made, and for what is no link; what
// is looked at and what is read are one link, whoever puts another one there meanwhile.
std::optional<fs::path> behind_own_link(const fs::path& path) {
    const OwnedDescriptor link(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {
    }, folder{};
    if (!link || ::fstat(link.get(), &info) != 0 || !S_ISLNK(info.st_mode) || !is_ours_or_roots(info) ||
        ::stat(folder_of(path).c_str(), &folder) != 0 || !is_ours_or_roots(folder))
        return std::nullopt;
    std::array<char, PATH_MAX> name;
    const ssize_t size = ::readlinkat(link.get(), "", name.data(), name.size());
    if (size <= 0) return std::nullopt;
    const fs::path next(std::string(name.data(), static_cast<std::size_t>(size)));
    return next.is_absolute() ? next : path.parent_path() / next;
}

// Only the owner of a name may take it in a folder for everybody, like /tmp.
bool may_take_name(const fs::path& path, const struct stat& info) {
    struct stat folder {};
    return ::geteuid() == 0 || info.st_uid == ::geteuid() || ::stat(folder_of(path).c_str(), &folder) != 0 ||
           folder.st_uid == ::geteuid() || (folder.st_mode & S_ISVTX) == 0;
}

// What stands in a folder for everybody is read by whoever has it.
bool may_be_for_another(const fs::path& path, const struct stat& info) {
    struct stat folder {};
    return !is_ours_or_roots(info) && ::stat(folder_of(path).c_str(), &folder) == 0 &&
           (folder.st_mode & S_IWOTH) != 0;
}

boost::system::result<Target> target_at(const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
        if (errno != ENOENT) return last_error();
        return Target{.path = path};
    }
    if (S_ISDIR(info.st_mode)) return system_error(EISDIR);
    if (S_ISSOCK(info.st_mode)) return system_error(ENXIO);
    if (S_ISLNK(info.st_mode)) {
        if (!may_take_name(path, info)) return system_error(EPERM);
        return Target{.path = path};
    }
    if (::access(path.c_str(), W_OK) != 0) return last_error();
    const bool is_replaced = S_ISREG(info.st_mode) && may_take_name(path, info);
    if (!is_replaced && may_be_for_another(path, info)) return system_error(EPERM);
    if (!S_ISREG(info.st_mode)) return Target{.path = path, .kind = Target::Kind::written_through};
    return Target{.path = path, .old = info};
}

boost::system::result<Target> find_target(fs::path path) {
    struct stat reached {};
    const bool exists = ::stat(path.c_str(), &reached) == 0;
    if (!exists && errno == ELOOP) return last_error();
    for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
        struct stat own {};
        if (exists && ::fstat(stream, &own) == 0 && same_file(own, reached))
            return Target{.path = path, .kind = Target::Kind::own_stream, .stream = stream};
    }
    for (int i = 0; i < kMaxLinks; ++i) {
        const auto next = behind_own_link(path);
        if (!next) break;
        struct stat there {};
        const bool leads_there = ::stat(next->c_str(), &there) == 0 && same_file(there, reached);
        // A pipe, or a file that was removed, has no name and is still reached by /proc/self/fd/N.
        if (exists && !leads_there) {
            if (::access(path.c_str(), W_OK) != 0) return last_error();
            return Target{.path = path, .kind = Target::Kind::behind_name};
        }
        path = *next;
    }
    return target_at(path);
}

// The name is none that another node's launcher, or one of another PID namespace, could choose as well.
fs::path fresh_name_beside(const fs::path& target) {
    return target.parent_path() /
           fmt::format("{}{}", kFreshFile, random_number<std::uint64_t>("a file's name"));
}

// The folder does not allow a new file, or not to replace this one; what is in the file may still be
// replaced.
bool concerns_name_only(const error_code& error) {
    constexpr std::array kErrors = {EACCES, EPERM, EROFS, EBUSY, EXDEV};
    return std::find(kErrors.begin(), kErrors.end(), error.value()) != kErrors.end();
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
    std::string replaced;
    std::size_t at = 0;
    for (std::size_t found; (found = text.find(from, at)) != text.npos; at = found + from.size())
        replaced.append(text, at, found - at).append(to);
    text = replaced.append(text, at);
}

// Calls `look` with each name that leads to the path, link by link, as far as it is there, and with what is
// there.
template <class Look>
void follow(const fs::path& path, Look look) {
    std::vector<fs::path> ahead;  // the next one last
    const auto add = [&ahead](const fs::path& parts) {
        const std::vector<fs::path> all(parts.begin(), parts.end());
        ahead.insert(ahead.end(), all.rbegin(), all.rend());
    };
    add(fs::path(".") / path);
    fs::path reached;
    for (int links = 0; !ahead.empty() && links <= kMaxLinks;) {
        const fs::path part = reached / ahead.back();
        ahead.pop_back();
        struct stat info {};
        if (::lstat(part.c_str(), &info) != 0) break;
        look(part, info);
        if (S_ISLNK(info.st_mode)) {
            error_code unknown;
            add(fs::read_symlink(part, unknown));
            ++links;
        } else {
            reached = part;
        }
    }
}

// Returns the owners of what the name leads through behind a folder where others may make names; nothing
// where there is no such folder.
std::optional<std::vector<uid_t>> owners_behind_open_folder(const fs::path& path) {
    std::vector<uid_t> owners;
    bool is_open = false;
    follow(path, [&](const fs::path&, const struct stat& info) {
        if (is_open) owners.push_back(info.st_uid);
        is_open = is_open || is_open_folder(info);
    });
    return is_open ? std::optional(owners) : std::nullopt;
}

// Returns who has the file, a link by its name, and their folder.
std::vector<uid_t> owners_at(const fs::path& path) {
    std::vector<uid_t> owners;
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) owners.push_back(info.st_uid);
    for (const fs::path& part : {path, folder_of(path)})
        if (::stat(part.c_str(), &info) == 0) owners.push_back(info.st_uid);
    return owners;
}

}  // namespace

std::string edited_text(std::string text) {
    constexpr std::string_view kMark = "\xef\xbb\xbf", kLittle = "\xff\xfe", kBig = "\xfe\xff";
    const bool little = text.starts_with(kLittle);
    if (little || text.starts_with(kBig)) {
        std::string plain;
        for (std::size_t at = kBig.size(); at + 1 < text.size(); at += 2) {
            const char low = text[little ? at : at + 1], high = text[little ? at + 1 : at];
            // On some processors a char is never negative.
            const bool is_ascii = high == 0 && static_cast<unsigned char>(low) < 0x80;
            plain += is_ascii ? low : '?';
        }
        text = std::move(plain);
    }
    if (text.starts_with(kMark)) text.erase(0, kMark.size());
    replace_all(text, "\r\n", "\n");
    replace_all(text, "\r", "\n");       // of old systems, and at the end
    replace_all(text, "\xc2\xa0", " ");  // of what was copied from a page
    return text;
}

boost::system::result<std::string> read_small_file(const fs::path& path, std::size_t max_bytes) {
    const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) return last_error();
    struct stat status = {};
    if (::fstat(file.get(), &status) != 0) return last_error();
    if (!S_ISREG(status.st_mode)) return error_code(EINVAL, boost::system::system_category());
    std::string bytes;
    for (;;) {
        const std::size_t before = bytes.size();
        const std::size_t room = std::min(std::max(kFirstPiece, before), max_bytes + 1 - before);
        bytes.resize(before + room);
        const ssize_t count = ::read(file.get(), bytes.data() + before, room);
        if (count < 0 && errno != EINTR) return last_error();
        bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (bytes.size() > max_bytes) return make_error_code(Errc::limit_exceeded);
        if (count == 0) return bytes;
    }
}

bool others_may_write(const struct stat& info) {
    const bool is_groups = (info.st_mode & S_IWGRP) != 0 && info.st_gid != info.st_uid;
    return is_groups || (info.st_mode & S_IWOTH) != 0;
}

std::vector<uid_t> owners_of(const fs::path& path) {
    std::vector<uid_t> owners = owners_at(path);
    if (const auto way = owners_behind_open_folder(path))
        owners.insert(owners.end(), way->begin(), way->end());
    return owners;
}

std::optional<uid_t> foreign_owner(const fs::path& path, const std::vector<uid_t>& trusted) {
    const auto is_foreign = [&trusted](uid_t owner) {
        return owner != ::geteuid() && owner != 0 &&
               std::find(trusted.begin(), trusted.end(), owner) == trusted.end();
    };
    // Where others may make names, an unknown user is one of them rather than root.
    const std::vector<uid_t> way = owners_behind_open_folder(path).value_or(std::vector<uid_t>());
    for (const uid_t owner : way)
        if (is_foreign(owner)) return owner;
    for (const uid_t owner : owners_at(path))
        if (is_foreign(owner) && !may_be_roots(owner)) return owner;
    return std::nullopt;
}

std::optional<fs::path> changeable_by_others(const fs::path& path) {
    std::optional<fs::path> found;
    fs::path folder;
    struct stat holder {};
    follow(path, [&](const fs::path& part, const struct stat& info) {
        // In a folder like /tmp a name is its owner's, and the folder's.
        const bool is_held = (holder.st_mode & S_ISVTX) != 0 && is_ours_or_roots(info);
        const bool is_others = holder.st_uid != ::geteuid() && !may_be_roots(holder.st_uid);
        if (!found && !folder.empty() && (is_others || (others_may_write(holder) && !is_held)))
            found = folder;
        if (!S_ISDIR(info.st_mode)) return;
        folder = part;
        holder = info;
    });
    return found;
}

bool is_in_open_folder(const fs::path& path) { return owners_behind_open_folder(path).has_value(); }

boost::system::result<OwnedDescriptor> open_own_file(const fs::path& path, int flags, unsigned mode) {
    struct stat info {};
    const bool is_link = ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
    if (is_link && !is_ours_or_roots(info)) return system_error(EPERM);
    // A link that takes the name of what was none is not followed.
    OwnedDescriptor file(::open(path.c_str(), flags | O_CLOEXEC | (is_link ? 0 : O_NOFOLLOW), mode));
    if (!file || ::fstat(file.get(), &info) != 0) return last_error();
    if (may_be_for_another(path, info)) return system_error(EPERM);
    return file;
}

error_code replace_file(const fs::path& path, std::string_view bytes) {
    const auto target = find_target(path);
    if (!target.has_value()) return target.error();
    switch (target->kind) {
        case Target::Kind::own_stream: return write_all(target->stream, bytes);
        case Target::Kind::written_through: return write_through(target->path, O_NOFOLLOW, bytes);
        case Target::Kind::behind_name: return write_through(target->path, 0, bytes);
        case Target::Kind::replaced: break;
    }
    const fs::path fresh = fresh_name_beside(target->path);
    auto error = write_file(fresh, O_CREAT | O_EXCL, bytes, true, target->old);
    if (!error && std::rename(fresh.c_str(), target->path.c_str()) != 0) error = last_error();
    if (error) {
        ::unlink(fresh.c_str());
        const bool may_write_over = target->old && concerns_name_only(error);
        return may_write_over ? write_file(target->path, O_TRUNC, bytes, true, std::nullopt) : error;
    }
    sync_folder(folder_of(target->path));
    return {};
}

error_code try_replace(const fs::path& path) {
    const auto target = find_target(path);
    if (!target.has_value()) return target.error();
    if (target->kind != Target::Kind::replaced) return {};
    const fs::path fresh = fresh_name_beside(target->path);
    const std::string trial(kTrialBytes, '\n');
    const auto error = write_file(fresh, O_CREAT | O_EXCL, trial, false, std::nullopt);
    ::unlink(fresh.c_str());
    return target->old && concerns_name_only(error) ? error_code{} : error;
}

}  // namespace base
}  // namespace ddprun
