#include "launcher/jobs/reserved_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "launcher/jobs/jobs_place.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// The errno; 0 if there is room.
int take_room(int file, std::size_t bytes) {
    int error_number = 0;
    do {
        error_number = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
    } while (error_number == EINTR);
    return error_number;
}

boost::system::error_code reserved_error() { return {errno, boost::system::system_category()}; }

}  // namespace

ReservedFile::ReservedFile(const std::filesystem::path& path, std::size_t bytes)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    const int error_number = file_ ? take_room(file_.get(), bytes) : errno;
    if (error_number == 0) return;
    if (file_) ::unlink(path.c_str());
    fail_errno(error_number, fmt::format("no room for {} bytes of a detached job in '{}' (see {})", bytes,
                                         path.parent_path().string(), kJobsVariable));
}

void ReservedFile::grow(std::size_t bytes) { take_room(file_.get(), bytes); }

boost::system::error_code ReservedFile::become(const std::filesystem::path& now,
                                               const std::filesystem::path& name, std::string_view text) {
    const auto size = static_cast<off_t>(text.size());
    for (off_t at = 0; !text.empty();) {
        const ssize_t count = ::pwrite(file_.get(), text.data(), text.size(), at);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return reserved_error();
        at += count;
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::ftruncate(file_.get(), size) != 0 || ::fsync(file_.get()) != 0 ||
        std::rename(now.c_str(), name.c_str()) != 0)
        return reserved_error();
    return {};
}

}  // namespace launch
}  // namespace ddprun
