#include "launcher/process/descriptors.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/resource_limits.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// The launcher itself needs so many: loops, sockets, terminals, files, and those that a restart needs for a
// moment.
constexpr std::size_t kOwnDescriptors = 64;
// A worker has two streams, and a file for each.
constexpr std::size_t kDescriptorsPerWorker = 4;

}  // namespace

std::size_t least_descriptors(std::size_t workers) noexcept {
    return kOwnDescriptors + kDescriptorsPerWorker * workers;
}

std::size_t launcher_descriptors(std::size_t workers) noexcept {
    return least_descriptors(workers) + 3 * static_cast<std::size_t>(kStartsAtOnce);
}

namespace {

std::string soft_limit(int resource) {
    rlimit limit{};
    const bool is_limited = ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_limited ? std::to_string(limit.rlim_cur) : "unlimited";
}

}  // namespace

std::string limit_remedy(int error_number) {
    const auto group = [](auto limit) { return limit ? std::to_string(*limit) : "unlimited"; };
    switch (error_number) {
        case EMFILE: return fmt::format(" (this process may have {}, ulimit -n)", soft_limit(RLIMIT_NOFILE));
        case ENFILE: return " (the machine has no more, sysctl fs.file-max)";
        case EAGAIN:
            return fmt::format(
                " (this user may have {} processes and threads, ulimit -u; this control group "
                "{}, pids.max; the machine: sysctl kernel.threads-max, kernel.pid_max)",
                soft_limit(RLIMIT_NPROC), group(process_limit()));
        case ENOMEM:
            return fmt::format(
                " (this process may have {} KiB, ulimit -v is {}; sysctl vm.overcommit_memory)",
                memory_limit() / 1024, soft_limit(RLIMIT_AS));
        default: return {};
    }
}

std::uint64_t raise_open_files() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return 0;
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

void restore_open_files(std::uint64_t soft_limit) noexcept {
    rlimit limit{};
    if (soft_limit == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = soft_limit;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

namespace {

// The system call getdents64 fills in this record; glibc declares only its own.
struct DirectoryRecord {
    ino64_t inode;
    off64_t offset;
    unsigned short length;
    unsigned char type;
    char name[1];
};

// A system that neither has close_range nor shows /proc has so many tried one by one.
constexpr int kDescriptorsTried = 4096;

bool is_own_number(const char* name, int& number) noexcept {
    number = 0;
    for (; *name != '\0'; ++name) {
        if (*name < '0' || *name > '9') return false;
        number = number * 10 + (*name - '0');
    }
    return true;
}

// Visits the open descriptors from `first` on, but for the one that it needs itself; 0 or an errno.
template <class Visit>
int visit_descriptors(int first, Visit visit) noexcept {
    const int directory = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return errno;
    alignas(DirectoryRecord) char buffer[4096];
    long filled = 0;
    while ((filled = ::syscall(SYS_getdents64, directory, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < filled;) {
            const auto* record = reinterpret_cast<const DirectoryRecord*>(buffer + at);
            int fd = 0;
            if (is_own_number(record->name, fd) && fd >= first && fd != directory) visit(fd);
            at += record->length;
        }
    }
    const int error_number = filled < 0 ? errno : 0;
    ::close(directory);
    return error_number;
}

// It also ends when somebody else reaps the child, which is none any more then.
void await_end(pid_t child) {
    siginfo_t ended = {};
    while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
}

OwnedDescriptor open_pipe_to_end(pid_t child) {
    OwnedDescriptor reader;
    const auto writer = std::make_shared<OwnedDescriptor>();
    if (!make_pipe(reader, *writer)) return OwnedDescriptor();
    try {
        start_without_signals([child, writer] {
            await_end(child);
            writer->reset();
        }).detach();
    } catch (const std::system_error& error) {
        reader.reset();
        errno = error.code().value();
    }
    return reader;
}

}  // namespace

int close_on_exec_from(int first) noexcept {
    if (::syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return 0;
    return close_on_exec_by_listing(first);
}

int close_on_exec_by_listing(int first) noexcept {
    return visit_descriptors(first, [](int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); });
}

void close_from(int first) noexcept {
    if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
    if (visit_descriptors(first, [](int fd) { ::close(fd); }) == 0) return;
    for (int fd = first; fd < kDescriptorsTried; ++fd) ::close(fd);
}

void close_inherited_from(int first) noexcept {
    visit_descriptors(first, [](int fd) {
        const int flags = ::fcntl(fd, F_GETFD);
        if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ::close(fd);
    });
}

void lead_to_nowhere(std::initializer_list<int> streams) noexcept {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int stream : streams) {
        if (fd >= 0) ::dup2(fd, stream);
        if (fd == stream) ::fcntl(fd, F_SETFD, 0);
    }
    if (fd > STDERR_FILENO) ::close(fd);
}

bool make_pipe(OwnedDescriptor& reader, OwnedDescriptor& writer) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    reader.reset(ends[0]);
    writer.reset(ends[1]);
    reader = above_standard_streams(std::move(reader));
    writer = above_standard_streams(std::move(writer));
    return reader && writer;
}

OwnedDescriptor make_text_file(const char* name, std::string_view text) {
    OwnedDescriptor file(::memfd_create(name, MFD_CLOEXEC));
    while (file && !text.empty()) {
        const ssize_t count = ::write(file.get(), text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return OwnedDescriptor();
        text.remove_prefix(static_cast<std::size_t>(count));
    }
    if (file && ::lseek(file.get(), 0, SEEK_SET) != 0) return OwnedDescriptor();
    return above_standard_streams(std::move(file));
}

bool await_ready(int fd, short events, Deadline deadline) {
    pollfd wanted{fd, events, 0};
    int count = 0;
    do {
        count = ::poll(&wanted, 1, poll_timeout(deadline));
    } while (count < 0 && errno == EINTR);
    return count > 0;
}

OwnedDescriptor open_process(pid_t process) {
    // glibc 2.36 declares pidfd_open for C only.
    return OwnedDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
}

// A standard stream's number may be free, and is not taken: who sets that stream up again would close this
// one.
OwnedDescriptor open_end_of_child(pid_t child) {
    OwnedDescriptor pidfd = open_process(child);
    // Any other error speaks of pidfds, not of the child: a filter that does not know the call may say what
    // it likes.
    if (!pidfd && errno != ESRCH) return open_pipe_to_end(child);
    return above_standard_streams(std::move(pidfd));
}

}  // namespace launch
}  // namespace ddprun
