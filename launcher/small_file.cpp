#include "launcher/small_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "rendezvous/error.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using boost::system::error_code;

constexpr mode_t kNewFileMode = 0666;
constexpr std::size_t kChunk = 64 * 1024;

error_code last_error() { return {errno, boost::system::system_category()}; }

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }

    int get() const { return fd_; }
    int close() { return ::close(std::exchange(fd_, -1)); }

  private:
    int fd_;
};

error_code write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(fd, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return last_error();
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
}

error_code write_new(const fs::path& path, std::string_view bytes) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kNewFileMode));
    if (file.get() < 0) return last_error();
    if (auto error = write_all(file.get(), bytes)) return error;
    if (::fsync(file.get()) != 0) return last_error();
    return file.close() == 0 ? error_code{} : last_error();
}

error_code write_through(const fs::path& path, std::string_view bytes) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) return last_error();
    return write_all(file.get(), bytes);
}

// Makes the new name last. A file system without it (some network ones) has nothing better to offer.
void sync_folder(const fs::path& folder) {
    const Descriptor handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.get() >= 0) ::fsync(handle.get());
}

}  // namespace

boost::system::result<std::string> read_small_file(const fs::path& path, std::size_t max_bytes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) return last_error();
    struct stat status = {};
    if (::fstat(file.get(), &status) != 0) return last_error();
    if (!S_ISREG(status.st_mode)) return error_code(EINVAL, boost::system::system_category());
    std::string bytes;
    for (;;) {
        const std::size_t before = bytes.size();
        const std::size_t room = std::min(kChunk, max_bytes + 1 - before);
        bytes.resize(before + room);
        const ssize_t count = ::read(file.get(), bytes.data() + before, room);
        if (count < 0 && errno != EINTR) return last_error();
        bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (bytes.size() > max_bytes) return make_error_code(Errc::limit_exceeded);
        if (count == 0) return bytes;
    }
}

error_code replace_file(const fs::path& path, std::string_view bytes) {
    std::error_code unknown;  // a file that cannot be looked at is reported by the steps below
    const fs::path target = fs::is_symlink(path, unknown) ? fs::weakly_canonical(path, unknown) : path;
    if (fs::exists(target, unknown) && !fs::is_regular_file(target, unknown))
        return write_through(target, bytes);
    fs::path fresh = target;
    fresh += ".new-" + std::to_string(::getpid());
    ::unlink(fresh.c_str());  // what a killed launcher of the same pid has left
    auto error = write_new(fresh, bytes);
    if (!error && std::rename(fresh.c_str(), target.c_str()) != 0) error = last_error();
    if (error) {
        ::unlink(fresh.c_str());
        return error;
    }
    sync_folder(target.has_parent_path() ? target.parent_path() : fs::path("."));
    return {};
}

}  // namespace ddprun
