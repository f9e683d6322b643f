// Lets what is in the wheel run with glibc 2.28 (RHEL 8, Ubuntu 20.04), where PyTorch's own wheels run: what
// it calls of glibc that is younger is here, or is bound to that name's older version. Linked into nothing
// else, since glibc 2.33 and older have the functions of threads and of loading in libraries of their own,
// which are then opened at each start.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

std::int64_t now(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return nanoseconds(time);
}

using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
const auto glibc_clockwait = reinterpret_cast<ClockWait>(::dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));

}  // namespace

#pragma GCC visibility push(hidden)

extern "C" {

// Young names: each does what glibc's function of its name does.

int stat(const char* path, struct stat* found) noexcept {
    return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, found, 0));
}

int lstat(const char* path, struct stat* found) noexcept {
    return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW));
}

int fstat(int fd, struct stat* found) noexcept { return static_cast<int>(::syscall(SYS_fstat, fd, found)); }

int fstat64(int fd, struct stat64* found) noexcept {
    return static_cast<int>(::syscall(SYS_fstat, fd, found));
}

pid_t gettid() noexcept { return static_cast<pid_t>(::syscall(SYS_gettid)); }

ssize_t getdents64(int fd, void* entries, std::size_t size) noexcept {
    return ::syscall(SYS_getdents64, fd, entries, size);
}

// Where glibc has none, the wait is by the clock of a condition variable that nobody has set; a caller looks
// at its own clock when it returns, since it may return early in any case.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
    if (glibc_clockwait != nullptr) return glibc_clockwait(condition, mutex, clock, until);
    const std::int64_t at = nanoseconds(*until) - now(clock) + now(CLOCK_REALTIME);
    const timespec real{at / kSecond, at % kSecond};
    return ::pthread_cond_timedwait(condition, mutex, &real);
}

// libstdc++ counts references without atomics while this is true.
extern const char __libc_single_threaded = 0;

// Old names: these go on to the version that glibc 2.28 has. aarch64 came with glibc 2.17, whose version all
// of its first names have.
#if defined(__x86_64__)
#define DDPRUN_FIRST "GLIBC_2.2.5"
#define DDPRUN_SECOND "GLIBC_2.3.3"
#define DDPRUN_GO_ON R"(endbr64; jmp *older_\name@GOTPCREL(%rip))"
#else
#define DDPRUN_FIRST "GLIBC_2.17"
#define DDPRUN_SECOND DDPRUN_FIRST
// The hint is what a processor that checks indirect calls looks for (bti c); x16 is nobody's between a call
// and its function.
#define DDPRUN_GO_ON R"(hint #34; adrp x16, :got:older_\name; ldr x16, [x16, :got_lo12:older_\name]; br x16)"
#endif
asm(R"(
    .macro older name version
    .symver older_\name, \name@\version
    .globl \name
    .hidden \name
    .type \name, %function
\name:
    )" DDPRUN_GO_ON R"(
    .endm
    .pushsection .text
    .irp name, dlerror, dlopen, dlsym, exp2, pthread_create, pthread_detach, pthread_join, pthread_getspecific, pthread_key_create, __pthread_key_create, pthread_key_delete, pthread_mutex_timedlock, pthread_mutex_trylock, pthread_once, pthread_rwlock_destroy, pthread_rwlock_init, pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, pthread_rwlock_unlock, pthread_rwlock_wrlock, pthread_setspecific, pthread_sigmask
    older \name, )" DDPRUN_FIRST R"(
    .endr
    .irp name, dlinfo, pthread_condattr_setclock
    older \name, )" DDPRUN_SECOND R"(
    .endr
    .popsection
)");

// A program of glibc 2.34 leaves it to glibc to call its constructors, and one of an older glibc calls them
// by a function that it hands over, which all versions do.
using Main = int (*)(int, char**, char**);
extern Main __init_array_start[], __init_array_end[];
[[gnu::visibility("default")]] int older_start(Main main, int count, char** words, Main begin, void (*end)(),
                                               void (*end_of_loader)(),
                                               void* stack_end) asm("older_libc_start_main");
asm(".symver older_libc_start_main, __libc_start_main@" DDPRUN_FIRST);

static int call_constructors(int count, char** words, char** environment) {
    for (Main* one = __init_array_start; one != __init_array_end; ++one) (*one)(count, words, environment);
    return 0;
}

int __libc_start_main(Main main, int count, char** words, void (*)(), void (*)(), void (*end_of_loader)(),
                      void* stack_end) {
    return older_start(main, count, words, call_constructors, nullptr, end_of_loader, stack_end);
}
}

#pragma GCC visibility pop
