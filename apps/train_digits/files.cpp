#include "apps/train_digits/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "apps/train_digits/input_error.hpp"

namespace ddprun {

namespace {

constexpr mode_t kModelFileMode = 0666;  // less the user's umask

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

[[noreturn]] void cannot_read(const std::string& path, int error_number) {
    throw InputError("cannot read '" + path + "': " + std::strerror(error_number));
}

[[noreturn]] void cannot_write(const std::string& path, int error_number) {
    throw std::system_error(error_number, std::generic_category(), "cannot write '" + path + "'");
}

std::filesystem::path folder_of(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    return folder.empty() ? std::filesystem::path(".") : folder;
}

// Returns 0 or the errno of the step that failed.
int write_and_sync(const std::string& path, const std::string& bytes) {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kModelFileMode));
    if (file.get() < 0) return errno;
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t count = ::write(file.get(), bytes.data() + done, bytes.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        done += static_cast<std::size_t>(count);
    }
    if (::fsync(file.get()) != 0) return errno;
    return file.close() == 0 ? 0 : errno;
}

}  // namespace

std::string read_file(const std::string& path, std::size_t max_bytes) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) cannot_read(path, errno);

    constexpr std::size_t kChunk = 64 * 1024;
    std::string bytes;
    for (;;) {
        const std::size_t before = bytes.size();
        bytes.resize(before + kChunk);
        ssize_t count = 0;
        do count = ::read(file.get(), bytes.data() + before, kChunk);
        while (count < 0 && errno == EINTR);
        if (count < 0) cannot_read(path, errno);
        bytes.resize(before + static_cast<std::size_t>(count));
        if (count == 0) return bytes;
        if (bytes.size() > max_bytes) {
            throw InputError("'" + path + "' holds more than " + std::to_string(max_bytes) + " bytes");
        }
    }
}

void require_writable_place(const std::string& path) {
    std::error_code ignored;  // a folder that cannot be looked into is reported by access() below
    if (std::filesystem::is_directory(path, ignored)) throw InputError("'" + path + "' is a folder");
    if (::access(folder_of(path).c_str(), W_OK | X_OK) != 0) {
        throw InputError("'" + path + "' cannot be made: " + folder_of(path).string() + ": " +
                         std::strerror(errno));
    }
}

void write_file_atomically(const std::string& path, const std::string& bytes) {
    const std::string temporary = path + ".tmp." + std::to_string(::getpid());
    int error_number = write_and_sync(temporary, bytes);
    if (error_number == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error_number = errno;
    if (error_number != 0) {
        ::unlink(temporary.c_str());
        cannot_write(path, error_number);
    }
}

}  // namespace ddprun
