#include "launcher/watchdog/timer_pipe.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>

#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

std::string new_timer_path(const std::string& temporary) {
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != sizeof random)
        fail_errno(errno, "cannot get random bytes for a name (getrandom)");
    return fmt::format("{}/ddprun_timers_{:016x}", temporary, random);
}

enum class AtPlace { nothing, unused_pipe, used_pipe, something_else };

AtPlace look_at_place(const std::string& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return AtPlace::nothing;
    if (!S_ISFIFO(info.st_mode)) return AtPlace::something_else;
    // A pipe without a reader cannot be opened for writing.
    const OwnedDescriptor writer(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    return writer ? AtPlace::used_pipe : AtPlace::unused_pipe;
}

}  // namespace

bool wants_timers(const Environment& environment) {
    const std::string* enabled = find_variable(environment, kEnableTimersVariable);
    return enabled != nullptr && *enabled == "1";
}

TimerPipe::TimerPipe(const Environment& environment, const std::string& temporary) {
    const std::string* chosen = find_variable(environment, kTimerFileVariable);
    std::string path;
    if (chosen != nullptr && !chosen->empty()) path = std::filesystem::absolute(*chosen).string();
    switch (path.empty() ? AtPlace::nothing : look_at_place(path)) {
        case AtPlace::used_pipe: is_elsewhere_ = true; break;
        case AtPlace::something_else:
            fail(Errc::malformed,
                 fmt::format("{} '{}' is there, but is no named pipe, so it is left as it is",
                             kTimerFileVariable, *chosen));
        case AtPlace::unused_pipe: ::unlink(path.c_str()); break;
        case AtPlace::nothing: break;
    }
    make(path.empty() || is_elsewhere_ ? new_timer_path(temporary) : path);
}

void TimerPipe::make(const std::string& path) {
    if (::mkfifo(path.c_str(), 0600) != 0)
        fail_errno(errno, fmt::format("cannot make the pipe '{}' for the workers' timers ({}=1, {})", path,
                                      kEnableTimersVariable, kTimerFileVariable));
    path_ = path;
    pipe_ = above_standard_streams(
        OwnedDescriptor(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)));
    if (pipe_) return;
    const int error = errno;
    ::unlink(path.c_str());
    fail_errno(error, fmt::format("cannot open the pipe '{}' for the workers' timers", path));
}

// Somebody may have put something else there meanwhile.
TimerPipe::~TimerPipe() {
    struct stat own {};
    struct stat there {};
    const bool is_own = pipe_ && ::fstat(pipe_.get(), &own) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                        own.st_dev == there.st_dev && own.st_ino == there.st_ino;
    if (is_own) ::unlink(path_.c_str());
}

}  // namespace ddprun
