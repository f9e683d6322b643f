#include "apps/train_digits/files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline app {

namespace {

constexpr mode_t kModelFileMode = 0666;  // less the user's umask

[[noreturn]] void cannot_read(const std::string& path, int error_number) {
    throw InputError(fmt::format("cannot read '{}': {}", path, std::strerror(error_number)));
}

std::filesystem::path folder_of(const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    return folder.empty() ? std::filesystem::path(".") : folder;
}

// Returns 0 or the errno of the step that failed.
int write_and_sync(const std::string& path, const std::string& bytes) {
    OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kModelFileMode));
    if (!file) return errno;
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t count = ::write(file.get(), bytes.data() + done, bytes.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        done += static_cast<std::size_t>(count);
    }
    if (::fsync(file.get()) != 0) return errno;
    return ::close(file.release()) == 0 ? 0 : errno;
}

}  // namespace

std::string read_file(const std::string& path, std::size_t max_bytes) {
    const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) cannot_read(path, errno);

    constexpr std::size_t kChunk = 64 * 1024;
    std::string bytes;
    for (;;) {
        const std::size_t before = bytes.size();
        bytes.resize(before + kChunk);
        const ssize_t count = ::read(file.get(), bytes.data() + before, kChunk);
        if (count < 0 && errno != EINTR) cannot_read(path, errno);
        bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (count == 0) return bytes;
        if (bytes.size() > max_bytes)
            throw InputError(fmt::format("'{}' holds more than {} bytes", path, max_bytes));
    }
}

void require_writable_place(const std::string& path) {
    std::error_code ignored;  // a folder that cannot be looked into is reported by access() below
    if (std::filesystem::is_directory(path, ignored)) throw InputError(fmt::format("'{}' is a folder", path));
    if (::access(folder_of(path).c_str(), W_OK | X_OK) != 0) {
        throw InputError(
            fmt::format("'{}' cannot be made: {}: {}", path, folder_of(path).string(), std::strerror(errno)));
    }
}

void write_file_atomically(const std::string& path, const std::string& bytes) {
    const std::string temporary = fmt::format("{}.tmp.{}", path, ::getpid());
    int error_number = write_and_sync(temporary, bytes);
    if (error_number == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error_number = errno;
    if (error_number == 0) return;
    ::unlink(temporary.c_str());
    throw std::system_error(error_number, std::generic_category(), fmt::format("cannot write '{}'", path));
}

}  // namespace ddprun::inline app
