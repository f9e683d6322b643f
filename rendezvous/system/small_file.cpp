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
#include <cstdio>
#include <random>
#include <utility>

#include "rendezvous/system/error.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using boost::system::error_code;

constexpr mode_t kNewFileMode = 0666;
// Most files of the kernel fit into the first piece; the next ones are as long as all before.
constexpr std::size_t kFirstPiece = 4 * 1024;
// A result of some ranks; more cannot be known before.
constexpr std::size_t kTrialBytes = 4096;
// How long a reader that is there may leave a full pipe alone.
constexpr std::chrono::milliseconds kReaderTimeout{10'000};
constexpr int kMaxLinks = 40;  // the kernel's

error_code system_error(int number) { return {number, boost::system::system_category()}; }
error_code last_error() { return system_error(errno); }

error_code write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && errno == EAGAIN) {
            pollfd room{fd, POLLOUT, 0};
            if (::poll(&room, 1, static_cast<int>(kReaderTimeout.count())) > 0) continue;
            return system_error(ETIMEDOUT);
        }
        if (count < 0) return last_error();
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
}

// `flags`: what becomes of a file that is there.
error_code write_file(const fs::path& path, int flags, std::string_view bytes, bool synced = true) {
    OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, kNewFileMode));
    if (file.get() < 0) return last_error();
    if (auto error = write_all(file.get(), bytes)) return error;
    if (synced && ::fsync(file.get()) != 0) return last_error();
    return ::close(file.release()) == 0 ? error_code{} : last_error();
}

error_code write_through(const fs::path& path, std::string_view bytes) {
    OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) return last_error();
    return write_all(file.get(), bytes);
}

// Makes the new name last. A file system without it (some network ones) has nothing better to offer.
void sync_folder(const fs::path& folder) {
    const OwnedDescriptor handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.get() >= 0) ::fsync(handle.get());
}

// Where the bytes of replace_file go.
struct Target {
    enum class Kind { replaced, own_stream, written_through };

    fs::path path;
    Kind kind = Kind::replaced;
    bool exists = false;
    int stream = -1;  // of own_stream
};

// The name that a link which leads to nothing yet leads to.
fs::path behind_links(fs::path path) {
    std::error_code trouble;
    for (int i = 0; i < kMaxLinks && fs::is_symlink(path, trouble); ++i) {
        const fs::path link = fs::read_symlink(path, trouble);
        path = link.is_absolute() ? link : path.parent_path() / link;
    }
    return path;
}

boost::system::result<Target> find_target(const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) {
        if (errno != ENOENT) return last_error();
        return Target{.path = behind_links(path)};
    }
    if (S_ISDIR(info.st_mode)) return system_error(EISDIR);
    if (S_ISSOCK(info.st_mode)) return system_error(ENXIO);
    if (::access(path.c_str(), W_OK) != 0) return last_error();
    Target target{.path = path, .kind = Target::Kind::written_through, .exists = true};
    if (!S_ISREG(info.st_mode)) return target;
    for (int stream : {STDOUT_FILENO, STDERR_FILENO}) {
        struct stat own {};
        if (::fstat(stream, &own) == 0 && own.st_dev == info.st_dev && own.st_ino == info.st_ino)
            return Target{.path = path, .kind = Target::Kind::own_stream, .exists = true, .stream = stream};
    }
    // A file that has lost its name is still reached by /proc/self/fd/N, but nothing can take its place.
    std::error_code nameless;
    const fs::path name = fs::canonical(path, nameless);
    if (!nameless && fs::equivalent(name, path, nameless))
        return Target{.path = name, .kind = Target::Kind::replaced, .exists = true};
    return target;
}

// Not a name that another node's launcher, or one of another PID namespace, could choose as well.
fs::path fresh_name_beside(const fs::path& target) {
    std::random_device random;
    return target.parent_path() / fmt::format(".ddprun-{}-{}", random(), random());
}

// The folder does not allow a new file, or not to replace this one; what is in the file may still be
// replaced.
bool concerns_name_only(const error_code& error) {
    constexpr std::array kErrors = {EACCES, EPERM, EROFS, EBUSY, EXDEV};
    return std::find(kErrors.begin(), kErrors.end(), error.value()) != kErrors.end();
}

}  // namespace

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

error_code replace_file(const fs::path& path, std::string_view bytes) {
    const auto target = find_target(path);
    if (!target.has_value()) return target.error();
    if (target->kind == Target::Kind::own_stream) return write_all(target->stream, bytes);
    if (target->kind == Target::Kind::written_through) return write_through(target->path, bytes);
    const fs::path fresh = fresh_name_beside(target->path);
    auto error = write_file(fresh, O_CREAT | O_EXCL, bytes);
    if (!error && std::rename(fresh.c_str(), target->path.c_str()) != 0) error = last_error();
    if (error) {
        ::unlink(fresh.c_str());
        return target->exists && concerns_name_only(error) ? write_file(target->path, O_TRUNC, bytes) : error;
    }
    sync_folder(target->path.has_parent_path() ? target->path.parent_path() : fs::path("."));
    return {};
}

error_code try_replace(const fs::path& path) {
    const auto target = find_target(path);
    if (!target.has_value()) return target.error();
    if (target->kind != Target::Kind::replaced) return {};
    const fs::path fresh = fresh_name_beside(target->path);
    const auto error = write_file(fresh, O_CREAT | O_EXCL, std::string(kTrialBytes, '\n'), false);
    ::unlink(fresh.c_str());
    return target->exists && concerns_name_only(error) ? error_code{} : error;
}

}  // namespace ddprun
