#include "launcher/look/waits/system_calls.hpp"

#include <algorithm>
#include <iterator>

namespace ddprun {
inline namespace launch {
namespace {

using S = CallShape;
using L = LimitShape;

constexpr SystemCall kCalls[] = {
    {"nanosleep", 35, 101, S::sleep, 0, L::always},
    {"clock_nanosleep", 230, 115, S::sleep, 0, L::always},
    {"pause", 34, -1, S::sleep},
    {"rt_sigsuspend", 130, 133, S::sleep},
    {"rt_sigtimedwait", 128, 137, S::sleep, 0, L::pointer, 2},
    // Most calls that are restarted so have a limit; to take one for timed is the careful answer.
    {"restart_syscall", 219, 128, S::restarted, 0, L::always},

    {"futex", 202, 98, S::futex, 0, L::pointer, 3},
    {"futex_waitv", 449, 449, S::lock, 0, L::pointer, 3},
    {"futex_wait", 455, 455, S::lock, 0, L::pointer, 4},
    {"semop", 65, 193, S::lock},
    {"semtimedop", 220, 192, S::lock, 0, L::pointer, 3},

    {"accept", 43, 202, S::accept},
    {"accept4", 288, 242, S::accept},
    {"connect", 42, 203, S::socket},
    {"recvfrom", 45, 207, S::socket},
    {"recvmsg", 47, 212, S::socket},
    {"recvmmsg", 299, 243, S::socket, 0, L::pointer, 4},
    {"sendto", 44, 206, S::socket},
    {"sendmsg", 46, 211, S::socket},
    {"sendmmsg", 307, 269, S::socket},

    {"read", 0, 63},
    {"write", 1, 64},
    {"readv", 19, 65},
    {"writev", 20, 66},
    {"pread64", 17, 67},
    {"pwrite64", 18, 68},
    {"preadv", 295, 69},
    {"pwritev", 296, 70},
    {"preadv2", 327, 286},
    {"pwritev2", 328, 287},
    {"sendfile", 40, 71},
    {"splice", 275, 76},
    {"copy_file_range", 326, 285},
    {"readahead", 187, 213},
    {"close", 3, 57},
    {"ioctl", 16, 29},
    {"fstat", 5, 80},
    {"lseek", 8, 62},
    {"fsync", 74, 82},
    {"fdatasync", 75, 83},
    {"syncfs", 306, 267},
    {"sync_file_range", 277, 84},
    {"ftruncate", 77, 46},
    {"fallocate", 285, 47},
    {"getdents", 78, -1},
    {"getdents64", 217, 61},
    {"flock", 73, 32, S::flock},
    {"fcntl", 72, 25, S::fcntl},

    {"open", 2, -1, S::path},
    {"creat", 85, -1, S::path},
    {"stat", 4, -1, S::path},
    {"lstat", 6, -1, S::path},
    {"access", 21, -1, S::path},
    {"mkdir", 83, -1, S::path},
    {"rmdir", 84, -1, S::path},
    {"rename", 82, -1, S::path},
    {"unlink", 87, -1, S::path},
    {"readlink", 89, -1, S::path},
    {"chdir", 80, 49, S::path},
    {"truncate", 76, 45, S::path},
    {"statfs", 137, 43, S::path},
    {"execve", 59, 221, S::path},
    {"openat", 257, 56, S::path, 1},
    {"openat2", 437, 437, S::path, 1},
    {"newfstatat", 262, 79, S::path, 1},
    {"statx", 332, 291, S::path, 1},
    {"faccessat", 269, 48, S::path, 1},
    {"faccessat2", 439, 439, S::path, 1},
    {"mkdirat", 258, 34, S::path, 1},
    {"unlinkat", 263, 35, S::path, 1},
    {"renameat", 264, 38, S::path, 1},
    {"renameat2", 316, 276, S::path, 1},
    {"readlinkat", 267, 78, S::path, 1},

    {"wait4", 61, 260, S::wait4},
    {"waitid", 247, 95, S::waitid},
    {"clone", 56, 220, S::fork},
    {"vfork", 58, -1, S::fork},
    {"clone3", 435, 435, S::fork},

    {"poll", 7, -1, S::poll, 0, L::milliseconds, 2},
    {"ppoll", 271, 73, S::poll, 0, L::pointer, 2},
    {"select", 23, -1, S::select, 0, L::pointer, 4},
    {"pselect6", 270, 72, S::select, 0, L::pointer, 4},
    {"epoll_wait", 232, -1, S::epoll, 0, L::milliseconds, 3},
    {"epoll_pwait", 281, 22, S::epoll, 0, L::milliseconds, 3},
    {"epoll_pwait2", 441, 441, S::epoll, 0, L::pointer, 3},
    {"msgrcv", 70, 188, S::queue},
    {"msgsnd", 69, 189, S::queue},
    {"mq_timedreceive", 243, 183, S::queue, 0, L::pointer, 4},
    {"mq_timedsend", 242, 182, S::queue, 0, L::pointer, 4},
    {"io_getevents", 208, 4, S::queue, 0, L::pointer, 4},
    {"io_uring_enter", 426, 426, S::queue},
};

}  // namespace

const SystemCall* find_system_call(long number, Architecture architecture) {
    const auto found = std::find_if(std::begin(kCalls), std::end(kCalls), [&](const SystemCall& call) {
        return number >= 0 && call.number(architecture) == number;
    });
    return found == std::end(kCalls) ? nullptr : found;
}

bool is_timed(const SystemCall& call, const std::array<std::uint64_t, 6>& arguments) {
    const std::uint64_t limit = arguments.at(static_cast<std::size_t>(call.limit_argument));
    switch (call.limit) {
        case LimitShape::none: return false;
        case LimitShape::always: return true;
        case LimitShape::pointer: return limit != 0;
        case LimitShape::milliseconds:
            return static_cast<std::int32_t>(limit) >= 0;  // a register's lower half
    }
    return false;
}

}  // namespace launch
}  // namespace ddprun
