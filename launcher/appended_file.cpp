#include "launcher/appended_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {

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
    auto file = open_own_file(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY, 0600);
    const bool refused = !file && (file.error() == std::errc::operation_not_permitted ||
                                   file.error() == std::errc::permission_denied);
    const auto owner = refused ? foreign_owner(path) : std::nullopt;
    if (owner) return fmt::format("{} '{}': it belongs to another user (uid {})", flag, path, *owner);
    if (!file) return fmt::format("{} '{}': cannot be opened: {}", flag, path, file.error().message());
    return AppendedFile(flag, path, above_standard_streams(*std::move(file)));
}

}  // namespace launch
}  // namespace ddprun
