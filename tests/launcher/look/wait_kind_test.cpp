#include "launcher/look/waits/wait_kind.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <set>
#include <utility>

#include "launcher/look/mounts.hpp"
#include "launcher/look/waits/descriptor_texts.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

using Arguments = std::array<std::uint64_t, 6>;

ThreadView waiting(long call, Arguments arguments = {}, char state = 'S', std::string channel = "") {
    ThreadView thread;
    thread.id = 77;
    thread.state = state;
    thread.wait_channel = std::move(channel);
    thread.system_call = call;
    thread.arguments = arguments;
    return thread;
}

// The same call on both architectures.
struct CallCase {
    const char* name;
    long x86_64;
    long aarch64;
    Arguments arguments;
    WaitKind kind;
    bool is_timed;
};

const CallCase kCases[] = {
    {"nanosleep", 35, 101, {}, WaitKind::sleep, true},
    {"clock_nanosleep", 230, 115, {}, WaitKind::sleep, true},
    {"pause", 34, -1, {}, WaitKind::sleep, false},
    {"rt_sigtimedwait", 128, 137, {1, 2, 0}, WaitKind::sleep, false},
    {"futex", 202, 98, {1, 0x80, 2, 0}, WaitKind::lock, false},
    {"futex", 202, 98, {1, 0x189, 2, 0x7ffe}, WaitKind::lock, true},
    {"semop", 65, 193, {}, WaitKind::lock, false},
    {"accept", 43, 202, {3}, WaitKind::socket, false},
    {"accept4", 288, 242, {3}, WaitKind::socket, false},
    {"connect", 42, 203, {3}, WaitKind::socket, false},
    {"recvfrom", 45, 207, {3}, WaitKind::socket, false},
    {"recvmsg", 47, 212, {3}, WaitKind::socket, false},
    {"recvmmsg", 299, 243, {3, 0, 0, 0, 1}, WaitKind::socket, true},
    {"sendto", 44, 206, {3}, WaitKind::socket, false},
    {"sendmsg", 46, 211, {3}, WaitKind::socket, false},
    {"open", 2, -1, {}, WaitKind::file, false},
    {"openat", 257, 56, {}, WaitKind::file, false},
    {"newfstatat", 262, 79, {}, WaitKind::file, false},
    {"flock", 73, 32, {3, 2}, WaitKind::file_lock, false},
    {"fcntl", 72, 25, {3, 7}, WaitKind::file_lock, false},
    {"fcntl", 72, 25, {3, 38}, WaitKind::file_lock, false},
    {"fcntl", 72, 25, {3, 4}, WaitKind::file, false},
    {"wait4", 61, 260, {kMinusOne}, WaitKind::child, false},
    {"waitid", 247, 95, {1, 4}, WaitKind::child, false},
    {"poll", 7, -1, {1, 1, 0xffffffff}, WaitKind::poll, false},
    {"poll", 7, -1, {1, 1, kMinusOne}, WaitKind::poll, false},
    {"poll", 7, -1, {1, 1, 100}, WaitKind::poll, true},
    {"ppoll", 271, 73, {1, 1, 0}, WaitKind::poll, false},
    {"ppoll", 271, 73, {1, 1, 0x7ffe}, WaitKind::poll, true},
    {"ppoll", 271, 73, {0, 0, 0}, WaitKind::sleep, false},
    {"select", 23, -1, {0, 0, 0, 0, 9}, WaitKind::sleep, true},
    {"select", 23, -1, {1, 1, 1, 1, 0}, WaitKind::poll, false},
    {"pselect6", 270, 72, {1, 1, 1, 1, 9}, WaitKind::poll, true},
    {"epoll_wait", 232, -1, {1, 1, 1, 0xffffffff}, WaitKind::poll, false},
    {"epoll_pwait", 281, 22, {1, 1, 1, 500}, WaitKind::poll, true},
    {"io_uring_enter", 426, 426, {}, WaitKind::poll, false},
};

// The calls of this machine, by its own headers.
const std::pair<const char*, long> kNumbers[] = {
    {"nanosleep", SYS_nanosleep},
    {"clock_nanosleep", SYS_clock_nanosleep},
    {"futex", SYS_futex},
    {"rt_sigsuspend", SYS_rt_sigsuspend},
    {"semtimedop", SYS_semtimedop},
    {"rt_sigtimedwait", SYS_rt_sigtimedwait},
    {"accept", SYS_accept},
    {"restart_syscall", SYS_restart_syscall},
    {"accept4", SYS_accept4},
    {"connect", SYS_connect},
    {"recvfrom", SYS_recvfrom},
    {"recvmsg", SYS_recvmsg},
    {"recvmmsg", SYS_recvmmsg},
    {"sendto", SYS_sendto},
    {"sendmsg", SYS_sendmsg},
    {"sendmmsg", SYS_sendmmsg},
    {"read", SYS_read},
    {"write", SYS_write},
    {"readv", SYS_readv},
    {"writev", SYS_writev},
    {"pread64", SYS_pread64},
    {"pwrite64", SYS_pwrite64},
    {"preadv", SYS_preadv},
    {"pwritev", SYS_pwritev},
    {"preadv2", SYS_preadv2},
    {"pwritev2", SYS_pwritev2},
    {"sendfile", SYS_sendfile},
    {"splice", SYS_splice},
    {"readahead", SYS_readahead},
    {"copy_file_range", SYS_copy_file_range},
    {"close", SYS_close},
    {"ioctl", SYS_ioctl},
    {"fstat", SYS_fstat},
    {"lseek", SYS_lseek},
    {"fsync", SYS_fsync},
    {"fdatasync", SYS_fdatasync},
    {"syncfs", SYS_syncfs},
    {"sync_file_range", SYS_sync_file_range},
    {"ftruncate", SYS_ftruncate},
    {"fallocate", SYS_fallocate},
    {"getdents64", SYS_getdents64},
    {"flock", SYS_flock},
    {"fcntl", SYS_fcntl},
    {"chdir", SYS_chdir},
    {"truncate", SYS_truncate},
    {"statfs", SYS_statfs},
    {"execve", SYS_execve},
    {"openat", SYS_openat},
    {"openat2", SYS_openat2},
    {"newfstatat", SYS_newfstatat},
    {"statx", SYS_statx},
    {"faccessat", SYS_faccessat},
    {"faccessat2", SYS_faccessat2},
    {"mkdirat", SYS_mkdirat},
    {"unlinkat", SYS_unlinkat},
    {"renameat", SYS_renameat},
    {"renameat2", SYS_renameat2},
    {"readlinkat", SYS_readlinkat},
    {"wait4", SYS_wait4},
    {"waitid", SYS_waitid},
    {"clone", SYS_clone},
    {"clone3", SYS_clone3},
    {"ppoll", SYS_ppoll},
    {"pselect6", SYS_pselect6},
    {"epoll_pwait", SYS_epoll_pwait},
    {"epoll_pwait2", SYS_epoll_pwait2},
    {"msgrcv", SYS_msgrcv},
    {"msgsnd", SYS_msgsnd},
    {"mq_timedreceive", SYS_mq_timedreceive},
    {"mq_timedsend", SYS_mq_timedsend},
    {"semop", SYS_semop},
    {"io_uring_enter", SYS_io_uring_enter},
    {"io_getevents", SYS_io_getevents},
#if defined(__x86_64__)
    {"pause", SYS_pause},
    {"open", SYS_open},
    {"creat", SYS_creat},
    {"stat", SYS_stat},
    {"lstat", SYS_lstat},
    {"access", SYS_access},
    {"mkdir", SYS_mkdir},
    {"rmdir", SYS_rmdir},
    {"rename", SYS_rename},
    {"unlink", SYS_unlink},
    {"readlink", SYS_readlink},
    {"vfork", SYS_vfork},
    {"poll", SYS_poll},
    {"select", SYS_select},
    {"epoll_wait", SYS_epoll_wait},
    {"getdents", SYS_getdents},
#endif
};

struct StateCase {
    char state;
    const char* channel;
    std::optional<long> call;
    WaitKind kind;
};

// What is told without a call that says something.
const StateCase kStates[] = {
    {'R', "", 202, WaitKind::running},
    {'T', "do_signal_stop", 202, WaitKind::stopped},
    {'t', "ptrace_stop", 202, WaitKind::traced},
    {'Z', "", {}, WaitKind::ended},
    {'X', "", {}, WaitKind::ended},
    {'S', "", {}, WaitKind::poll},
    {'D', "", {}, WaitKind::file},
    {'D', "filemap_fault", -1, WaitKind::file},
    {'S', "request_wait_answer", 123'456, WaitKind::file},
    {'D', "nfs_wait_bit_killable", 123'456, WaitKind::file},
    {'D', "rpc_wait_bit_killable", {}, WaitKind::file},
    {'S', "hrtimer_nanosleep", 219, WaitKind::sleep},
    {'S', "futex_wait_queue", 219, WaitKind::lock},
    {'S', "futex_wait_queue_me", {}, WaitKind::lock},
    {'S', "do_poll.constprop.0", 219, WaitKind::poll},
    {'S', "do_epoll_wait", {}, WaitKind::poll},
    {'S', "pipe_read", {}, WaitKind::pipe},
    {'S', "anon_pipe_read", {}, WaitKind::pipe},
    {'S', "inet_csk_accept", {}, WaitKind::socket},
    {'S', "unix_stream_read_generic", {}, WaitKind::socket},
    {'S', "do_wait", {}, WaitKind::child},
    {'S', "locks_lock_inode_wait", {}, WaitKind::file_lock},
    {'D', "", 56, WaitKind::child},  // clone: vfork
    {'S', "", 56, WaitKind::running},
};

struct LinkCase {
    const char* link;
    const char* channel;
    WaitKind kind;
};

// Of read().
const LinkCase kLinks[] = {
    {"socket:[12]", "", WaitKind::socket},
    {"pipe:[12]", "", WaitKind::pipe},
    {"anon_inode:[eventfd]", "", WaitKind::poll},
    {"anon_inode:inotify", "", WaitKind::poll},
    {"/dev/nvidia0", "", WaitKind::device},
    {"/dev/nvidia-uvm", "", WaitKind::device},
    {"/dev/kfd", "", WaitKind::device},
    {"/dev/pts/3", "wait_woken", WaitKind::pipe},
    {"/data/x", "", WaitKind::file},
    {"/data/x (deleted)", "", WaitKind::file},
    {"/tmp/fifo", "pipe_read", WaitKind::pipe},
    {"", "futex_wait", WaitKind::lock},
    {"", "", WaitKind::poll},
};

}  // namespace

TEST_CASE("waits: each call of both architectures has its kind, and is timed by its arguments") {
    for (const CallCase& one : kCases) {
        for (const Architecture architecture : {Architecture::x86_64, Architecture::aarch64}) {
            const long number = architecture == Architecture::x86_64 ? one.x86_64 : one.aarch64;
            if (number < 0) continue;
            INFO(one.name << " " << number);
            const SeenWait sight = sight_of(waiting(number, one.arguments), architecture);
            REQUIRE(sight.call != nullptr);
            CHECK(sight.call->name == one.name);
            CHECK(name_of(sight.kind) == name_of(one.kind));
            CHECK(sight.is_timed == one.is_timed);
        }
    }
}

TEST_CASE("waits: the numbers of this machine's calls are those that its own headers have") {
    std::set<long> seen;
    for (const auto& [name, number] : kNumbers) {
        INFO(name);
        const SystemCall* call = find_system_call(number);
        REQUIRE(call != nullptr);
        CHECK(call->name == name);
        CHECK(seen.insert(number).second);
    }
    CHECK(find_system_call(-1) == nullptr);
    CHECK(find_system_call(1'000'000) == nullptr);
}

TEST_CASE("waits: the state, and the kernel's function where no call says anything") {
    for (const StateCase& one : kStates) {
        ThreadView thread = waiting(0, {}, one.state, one.channel);
        thread.system_call = one.call;
        INFO(one.state << " " << one.channel << " " << one.call.value_or(-9));
        CHECK(name_of(settle_wait(thread, sight_of(thread, Architecture::x86_64), {}).kind) ==
              name_of(one.kind));
    }
}

TEST_CASE("waits: what a descriptor leads to decides the kind of a read") {
    for (const LinkCase& one : kLinks) {
        const ThreadView thread = waiting(0, {5}, 'S', one.channel);
        const SeenWait sight = sight_of(thread, Architecture::x86_64);
        CHECK(sight.descriptor == 5);
        WaitFacts facts;
        facts.link = one.link;
        INFO(one.link);
        CHECK(name_of(settle_wait(thread, sight, facts).kind) == name_of(one.kind));
    }
}

TEST_CASE("waits: a stream that the launcher reads is output, whatever it is; a read is not") {
    const auto kind = [](long call, std::uint64_t descriptor, const char* link, bool launcher_reads) {
        const ThreadView thread = waiting(call, {descriptor});
        WaitFacts facts;
        facts.link = link;
        facts.launcher_reads = launcher_reads;
        return name_of(settle_wait(thread, sight_of(thread, Architecture::x86_64), facts).kind);
    };
    CHECK(kind(1, 1, "pipe:[3]", true) == "output");
    CHECK(kind(20, 2, "pipe:[3]", true) == "output");
    CHECK(kind(1, 2, "socket:[3]", true) == "output");
    CHECK(kind(1, 3, "pipe:[3]", true) == "pipe");
    CHECK(kind(1, 1, "pipe:[3]", false) == "pipe");
    CHECK(kind(0, 1, "pipe:[3]", true) == "pipe");
}

TEST_CASE("waits: the owner of a lock, by the words of it") {
    const std::vector<pid_t> living = {77, 78, 79};
    const auto owner = [&](std::uint64_t operation, std::uint32_t expected, LockWords words) {
        return owner_of_lock(waiting(202, {0x1000, operation, expected}), words, living);
    };
    constexpr std::uint64_t kWait = FUTEX_WAIT_PRIVATE, kPi = FUTEX_LOCK_PI_PRIVATE;
    CHECK(owner(kWait, 2, {2, 78, 1}) == LockOwner{78, false});
    CHECK(owner(kWait, 2, {2, 77, 1}) == LockOwner{77, false});
    CHECK(owner(kWait, 2, {2, 99, 1}) == LockOwner{});
    CHECK(owner(kWait, 2, {2, 0, 0}) == LockOwner{});
    CHECK(owner(kWait, 1, {1, 78, 1}) == LockOwner{});
    CHECK(owner(kPi, 0, {FUTEX_WAITERS | 79U}) == LockOwner{79, false});
    CHECK(owner(kPi, 0, {79}) == LockOwner{79, false});
    CHECK(owner(kPi, 0, {99, 78}) == LockOwner{});
    CHECK(owner(kWait, FUTEX_WAITERS | 79U, {FUTEX_WAITERS | 79U, 5}) == LockOwner{79, false});
    CHECK(owner(kWait, 3, {3, 0, 0, 78}) == LockOwner{78, false});
    CHECK(owner(kWait, 3, {3, 0, 79, 0}) == LockOwner{79, false});
    CHECK(owner(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 78, {78}) == LockOwner{78, true});
    CHECK(owner(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 78, {0}) == LockOwner{});
    CHECK(owner(FUTEX_WAIT_BITSET, 77, {77}) == LockOwner{});
}

TEST_CASE("waits: the words for people") {
    const auto words = [](long call, Arguments arguments, const WaitFacts& facts, char state = 'S') {
        const ThreadView thread = waiting(call, arguments, state, "nfs_wait");
        return words_of(settle_wait(thread, sight_of(thread, Architecture::x86_64), facts));
    };
    WaitFacts facts;
    CHECK(words(35, {}, {}) == "sleeps");
    CHECK(words(202, {}, {}) == "waits for a lock");
    facts.lock = {4711, false};
    CHECK(words(202, {}, facts) == "waits for a lock that thread 4711 holds");
    facts.lock = {77, false};
    CHECK(words(202, {}, facts) == "waits for a lock that it holds itself");
    facts.lock = {4711, true};
    CHECK(words(202, {}, facts) == "waits for the end of thread 4711");
    facts = {};
    facts.link = "/mnt/x";
    CHECK(words(0, {3}, facts) == "waits for a file system: /mnt/x");
    facts.mount = "/mnt (nfs4, server:/export)";
    CHECK(words(0, {3}, facts) == "waits for a file system: /mnt/x on /mnt (nfs4, server:/export)");
    facts.process = 12;
    CHECK(words(73, {3}, facts) ==
          "waits for the lock of a file: /mnt/x on /mnt (nfs4, server:/export), which process 12 has");
    CHECK(words(-1, {}, {}, 'D') == "waits for a file system: in nfs_wait");
    facts = {};
    CHECK(words(61, {}, facts) == "waits for the end of a child");
    facts.children = 3;
    CHECK(words(61, {}, facts) == "waits for the end of one of 3 children");
    facts.process = 12;
    facts.process_name = "sh";
    CHECK(words(61, {}, facts) == "waits for the end of process 12 (sh)");
    CHECK(words(61, {}, facts, 't') == "is traced by process 12 (sh)");
    CHECK(words(61, {}, facts, 'T') == "is stopped");
    CHECK(words(61, {}, facts, 'R') == "runs");
    facts.link = "socket:[3]";
    CHECK(words(45, {3}, facts) == "waits for a socket");
    facts.own = SocketEnd{"10.0.0.1:80"};
    CHECK(words(45, {3}, facts) == "waits for a socket: a connection, which process 12 (sh) has");
    facts.other = SocketEnd{"10.0.0.2:90"};
    CHECK(words(45, {3}, facts) ==
          "waits for a socket: 10.0.0.2:90 from 10.0.0.1:80, which process 12 (sh) has");
    CHECK(words(7, {1, 1}, facts) ==
          "waits for an event: 10.0.0.2:90 from 10.0.0.1:80, which process 12 (sh) has");
    facts.is_listening = true;
    CHECK(words(43, {3}, facts) == "waits for a socket: connections to 10.0.0.1:80");
    facts = {};
    facts.polled = 4;
    CHECK(words(7, {1, 4}, facts) == "waits for an event: one of 4 descriptors");
    facts.is_starting = true;
    CHECK(words(7, {}, facts) == "is being started");
    CHECK(words(7, {}, facts, 'Z') == "has ended");
}

TEST_CASE("waits: a mount by its number, and what else mountinfo has") {
    const std::string mounts =
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "36 22 0:45 / /data rw shared:7 master:2 - nfs4 old:/x rw\n"
        "37 36 0:46 / /data rw - nfs4 server:/export rw,addr=10.0.0.9\n"
        "38 22 0:47 /sub /my\\040disk rw - fuse.sshfs me@host:/a\\040b rw\n"
        "broken line\n";
    CHECK(mount_of(mounts, "/data/set/0.bin") == "/data (nfs4, server:/export)");
    CHECK(mount_of(mounts, "/data") == "/data (nfs4, server:/export)");
    CHECK(mount_of(mounts, "/database") == "/ (ext4, /dev/sda1)");
    CHECK(mount_of(mounts, "/my disk/f") == "/my disk (fuse.sshfs, me@host:/a b)");
    CHECK(mount_of(mounts, "pipe:[77]").empty());
    CHECK(mount_of("", "/data").empty());
    CHECK(mount_of_number(mounts, 36) == "/data (nfs4, old:/x)");
    CHECK(mount_of_number(mounts, 38) == "/my disk (fuse.sshfs, me@host:/a b)");
    CHECK(mount_of_number(mounts, 39).empty());
}

TEST_CASE("waits: what /proc tells of a descriptor and of locks of files") {
    const DescriptorInfo info = parse_descriptor_info(
        "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t2057\nPid:\t44\n"
        "tfd:        5 events:       19 data:                5  pos:0 ino:61af sdev:7\ntfd:        x\nnothing\n");
    CHECK(info.mount == 15);
    CHECK(info.inode == 2057);
    CHECK(info.process == 44);
    CHECK(info.watched == std::vector<int>{5});
    const char* locks =
        "1: POSIX  ADVISORY  WRITE 10 08:01:500 0 EOF\n"
        "2: FLOCK  ADVISORY  WRITE 11 08:01:501 0 EOF\n"
        "2: -> FLOCK  ADVISORY  WRITE 12 08:01:501 0 EOF\n"
        "2:  -> FLOCK  ADVISORY  WRITE 13 08:01:501 0 EOF\n"
        "3: OFDLCK ADVISORY  WRITE -1 08:01:502 0 EOF\n"
        "3: -> POSIX  ADVISORY  WRITE 14 08:01:502 0 EOF\n"
        "4: POSIX  ADVISORY  WRITE 15 08:01:503 0 EOF\n"
        "4: -> OFDLCK ADVISORY  WRITE -1 08:01:503 0 EOF\n"
        "broken\n";
    CHECK(holder_of_file_lock(locks, 12) == 11);
    CHECK(holder_of_file_lock(locks, 13) == 11);
    CHECK(holder_of_file_lock(locks, 11) == 0);
    CHECK(holder_of_file_lock(locks, 14) == 0);
    CHECK(holder_of_file_lock(locks, 99) == 0);
    CHECK(holder_of_file_lock(locks, 99, 503) == 15);
    CHECK(holder_of_file_lock("", 12) == 0);
}

}  // namespace ddprun
