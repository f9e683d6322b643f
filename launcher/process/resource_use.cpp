#include "launcher/process/resource_use.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ddprun::inline launch {
namespace {

constexpr std::int64_t kBytesOfUnit = 1024;  // of ru_maxrss

std::int64_t us_of(const timeval& time) {
    return std::int64_t{time.tv_sec} * 1'000'000 + std::int64_t{time.tv_usec};
}

}  // namespace

// wait4 would reap it; waitid does not, and has a fifth argument that the C library leaves out.
std::optional<ResourceUse> use_of_ended(pid_t child) {
    siginfo_t info = {};
    rusage used = {};
    const long failed =
        ::syscall(SYS_waitid, P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, &used);
    if (failed != 0 || info.si_pid != child) return std::nullopt;
    return ResourceUse{us_of(used.ru_utime), us_of(used.ru_stime), used.ru_maxrss * kBytesOfUnit,
                       used.ru_majflt};
}

}  // namespace ddprun::inline launch
