#include "launcher/appended_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ddprun::inline launch {

std::string AppendedFile::loss(const std::string& why) const {
    return fmt::format("cannot write {} ({}): {}; lines are lost there, the job goes on", path_, flag_, why);
}

std::optional<std::string> AppendedFile::append(std::string line) {
    if (is_torn_) line.insert(line.begin(), '\n');
    ssize_t count = 0;
    do {
        count = ::write(fd_.get(), line.data(), line.size());
    } while (count < 0 && errno == EINTR);
    if (count == static_cast<ssize_t>(line.size())) {
        is_torn_ = false;
        return std::nullopt;
    }
    const int why = count < 0 ? errno : ENOSPC;
    is_torn_ = is_torn_ || count > 0;
    if (std::exchange(is_said_, true)) return std::nullopt;
    return loss(std::strerror(why));
}

std::variant<AppendedFile, std::string> open_appended_file(const std::string& flag, const std::string& path) {
    // A FIFO that nobody reads is refused, and one that is full loses lines.
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    OwnedDescriptor fd = above_standard_streams(OwnedDescriptor(::open(path.c_str(), flags, 0600)));
    if (!fd) return fmt::format("{} '{}': cannot be opened: {}", flag, path, std::strerror(errno));
    return AppendedFile(flag, path, std::move(fd));
}

}  // namespace ddprun::inline launch
