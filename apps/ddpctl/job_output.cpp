#include "apps/ddpctl/job_output.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace app {
namespace {

constexpr std::size_t kBlock = 64 * 1024;

// Its end of a name changes a file's attributes.
OwnedDescriptor watch(int file) {
    OwnedDescriptor changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    const std::string path = fmt::format("/proc/self/fd/{}", file);
    if (!changes || ::inotify_add_watch(changes.get(), path.c_str(), IN_MODIFY | IN_ATTRIB) < 0)
        fail_errno(errno, "cannot watch the job's output");
    return changes;
}

// A launcher whose folder something has removed makes it anew; of a folder that is not there no event can
// tell.
constexpr std::chrono::milliseconds kRemovedPause{200};

// Reads as pread does, without EINTR.
std::string_view read_at(int fd, std::array<char, kBlock>& buffer, std::size_t size, std::uint64_t offset) {
    for (;;) {
        const ssize_t count = ::pread(fd, buffer.data(), size, static_cast<off_t>(offset));
        if (count >= 0) return {buffer.data(), static_cast<std::size_t>(count)};
        if (errno != EINTR) fail_errno(errno, "cannot read the job's output");
    }
}

}  // namespace

OwnedDescriptor take_interrupts() {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    ::sigprocmask(SIG_BLOCK, &interrupt, nullptr);
    OwnedDescriptor signals(::signalfd(-1, &interrupt, SFD_CLOEXEC));
    if (!signals) fail_errno(errno, "no signalfd");
    return signals;
}

void write_out(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail_errno(errno, "cannot write to stdout");
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

void complain(const std::string& what) { std::fprintf(stderr, "ddpctl: %s\n", what.c_str()); }

JobOutput::JobOutput(const Job& job)
    : path_((job.folder / "output").string()),
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)),
      job_(job) {
    if (!file_) fail_errno(errno, fmt::format("cannot open '{}'", path_));
}

void JobOutput::seek_tail(std::uint64_t lines) {
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0) fail_errno(errno, fmt::format("cannot look at '{}'", path_));
    const auto size = static_cast<std::uint64_t>(info.st_size);
    offset_ = size;
    if (lines == 0) return;
    std::array<char, kBlock> buffer;
    // The newline at the very end ends the last line and begins none.
    std::uint64_t end = size == 0 ? 0 : size - 1;
    while (end > 0) {
        const std::uint64_t begin = end - std::min<std::uint64_t>(end, kBlock);
        const std::string_view block =
            read_at(file_.get(), buffer, static_cast<std::size_t>(end - begin), begin);
        for (std::size_t i = block.size(); i > 0; --i) {
            if (block[i - 1] != '\n' || --lines > 0) continue;
            offset_ = begin + i;
            return;
        }
        end = begin;
    }
    offset_ = 0;
}

void JobOutput::print() {
    std::array<char, kBlock> buffer;
    struct stat info {};
    // Whoever rotates logs has emptied it, and what stands there now has come since.
    if (::fstat(file_.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) < offset_) offset_ = 0;
    for (;;) {
        const std::string_view block = read_at(file_.get(), buffer, buffer.size(), offset_);
        if (block.empty()) return;
        write_out(block);
        offset_ += block.size();
    }
}

JobOutput::Stop JobOutput::follow(bool interruptible) {
    OwnedDescriptor changes = watch(file_.get());
    const OwnedDescriptor interrupts = interruptible ? take_interrupts() : OwnedDescriptor();
    auto launcher = open_launcher(job_);
    for (;;) {
        // Once the launcher has ended, nothing is written behind what is printed now.
        print();
        const bool is_removed = !exists();
        if (reopen()) {
            changes = watch(file_.get());
            continue;
        }
        if (!launcher) return Stop::job_ended;
        std::array<pollfd, 3> events{
            {{changes.get(), POLLIN, 0}, {launcher->get(), POLLIN, 0}, {interrupts.get(), POLLIN, 0}}};
        const int pause = is_removed ? static_cast<int>(kRemovedPause.count()) : -1;
        if (::poll(events.data(), events.size(), pause) < 0 && errno != EINTR)
            fail_errno(errno, "cannot wait for the job");
        if (events[2].revents != 0) return Stop::interrupted;
        if (events[1].revents != 0) launcher.reset();
        std::array<char, 4096> noted;
        while (::read(changes.get(), noted.data(), noted.size()) > 0) {
        }
    }
}

bool JobOutput::exists() const { return ::access(path_.c_str(), F_OK) == 0; }

bool JobOutput::reopen() {
    OwnedDescriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat mine {};
    struct stat named {};
    if (!file || ::fstat(file_.get(), &mine) != 0 || ::fstat(file.get(), &named) != 0) return false;
    if (mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) return false;
    const auto lost = static_cast<std::uint64_t>(std::max<off_t>(mine.st_size - kMostOutputKept, 0));
    offset_ -= std::min(offset_, lost);
    file_ = std::move(file);
    return true;
}

}  // namespace app
}  // namespace ddprun
