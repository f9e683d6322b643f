#include "launcher/told_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/base/error.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace launch {

namespace {

using boost::system::error_code;

constexpr std::size_t kPiece = 16 * 1024;
constexpr std::chrono::hours kTypingPatience{24};

error_code system_error_of(int error) { return {error, boost::system::system_category()}; }

boost::system::result<std::string> read_told(int file, std::size_t max_bytes,
                                             std::chrono::milliseconds patience) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + patience;
    std::string bytes;
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
        struct pollfd waited {
            file, POLLIN, 0
        };
        // A FIFO that has no writer yet would be read as empty, hence the wait before.
        const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (ready == 0) return system_error_of(ETIMEDOUT);
        if (ready < 0 && errno != EINTR) return system_error_of(errno);
        if (ready < 0) continue;
        const std::size_t before = bytes.size();
        bytes.resize(before + kPiece);
        const ssize_t count = ::read(file, bytes.data() + before, kPiece);
        const int error = count < 0 ? errno : 0;
        bytes.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (bytes.size() > max_bytes) return make_error_code(Errc::limit_exceeded);
        if (count == 0) return bytes;
        if (error != 0 && error != EINTR && error != EAGAIN) return system_error_of(error);
    }
}

}  // namespace

boost::system::result<std::string> read_told_file(const std::string& path, std::size_t max_bytes,
                                                  std::chrono::milliseconds patience) {
    const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (file.get() < 0) return system_error_of(errno);
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return system_error_of(errno);
    if (S_ISDIR(status.st_mode)) return system_error_of(EISDIR);
    return read_told(file.get(), max_bytes, patience);
}

std::string why_untold(const error_code& error, std::size_t max_bytes) {
    if (error == make_error_code(Errc::limit_exceeded)) return fmt::format("has over {} bytes", max_bytes);
    return error.message();
}

ToldFiles::Text ToldFiles::read(const std::string& path, std::size_t max_bytes) const {
    const auto known = texts_->find(path);
    return known != texts_->end() ? known->second
                                  : texts_->emplace(path, read_told_file(path, max_bytes)).first->second;
}

ToldFiles::Text ToldFiles::read(int descriptor, std::size_t max_bytes) const {
    const auto [text, is_new] = texts_->try_emplace(fmt::format("/dev/fd/{}", descriptor), "");
    if (is_new) text->second = read_told(descriptor, max_bytes, kTypingPatience);
    return text->second;
}

}  // namespace launch
}  // namespace ddprun
