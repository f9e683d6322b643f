#include "launcher/watchdog/timer_pipe.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "rendezvous/system/error.hpp"
#include "rendezvous/system/machine.hpp"

namespace ddprun::inline launch {
namespace {

// Each is lost only to a launcher that has ended, and taken its pipe away, in between.
constexpr int kTurns = 10;

std::string new_timer_path(const std::string& temporary) {
    return fmt::format("{}/ddprun_timers_{}", temporary, hex_text(random_bytes<8>("a name")));
}

enum class AtPlace { nothing, unused_pipe, used_pipe, something_else };

AtPlace look_at_place(const std::string& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return AtPlace::nothing;
    if (!S_ISFIFO(info.st_mode) || info.st_uid != ::geteuid()) return AtPlace::something_else;
    // A pipe without a reader cannot be opened for writing.
    const OwnedDescriptor writer(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    return writer ? AtPlace::used_pipe : AtPlace::unused_pipe;
}

bool is_at(const std::string& path, const OwnedDescriptor& pipe) {
    struct stat own {};
    struct stat there {};
    return ::fstat(pipe.get(), &own) == 0 && S_ISFIFO(own.st_mode) && ::lstat(path.c_str(), &there) == 0 &&
           own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

}  // namespace

bool wants_timers(const Environment& environment) {
    const std::string* enabled = find_variable(environment, kEnableTimersVariable);
    return enabled != nullptr && *enabled == "1";
}

TimerPipe::TimerPipe(const std::string& chosen, const std::string& temporary) {
    if (!chosen.empty()) {
        const std::string path = std::filesystem::absolute(chosen).string();
        for (int turn = 0; turn < kTurns && !pipe_ && !is_elsewhere_; ++turn) take(path);
        if (pipe_) return;
        is_elsewhere_ = true;
    }
    take(new_timer_path(temporary));
    if (!pipe_) fail(Errc::malformed, "a new pipe for the workers' timers is another's already");
}

void TimerPipe::take(const std::string& path) {
    switch (look_at_place(path)) {
        case AtPlace::used_pipe: is_elsewhere_ = true; return;
        case AtPlace::something_else:
            fail(Errc::malformed,
                 fmt::format("{} '{}' is there, but is no named pipe of this user's, so it is left as it is",
                             kTimerFileVariable, path));
        case AtPlace::unused_pipe: break;
        case AtPlace::nothing:
            if (::mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST)
                fail_errno(errno, fmt::format("cannot make the pipe '{}' for the workers' timers ({}=1, {})",
                                              path, kEnableTimersVariable, kTimerFileVariable));
            break;
    }
    OwnedDescriptor pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    if (!pipe && errno == ENOENT) return;  // Its owner has ended.
    if (!pipe) fail_errno(errno, fmt::format("cannot open the pipe '{}' for the workers' timers", path));
    // File systems without locks leave it at the look above.
    if (::flock(pipe.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        is_elsewhere_ = true;
        return;
    }
    if (!is_at(path, pipe)) return;
    ::fchmod(pipe.get(), 0600);
    path_ = path;
    pipe_ = above_standard_streams(std::move(pipe));
}

// Somebody may have put something else there meanwhile.
TimerPipe::~TimerPipe() {
    if (pipe_ && is_at(path_, pipe_)) ::unlink(path_.c_str());
}

}  // namespace ddprun::inline launch
