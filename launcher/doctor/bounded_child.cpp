#include "launcher/doctor/bounded_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "launcher/process/end_descriptor.hpp"

namespace ddprun::inline launch {
namespace {

// A system without close_range (before Linux 5.9) has so many tried one by one.
constexpr int kDescriptorsTried = 4096;

void close_all_but_streams() {
    constexpr int kFirst = STDERR_FILENO + 1;
    if (::syscall(SYS_close_range, kFirst, ~0U, 0) == 0) return;
    for (int fd = kFirst; fd < kDescriptorsTried; ++fd) ::close(fd);
}

// Under a sanitizer _exit() does what exit() does: it writes what the parent's stdio still holds, into the answer.
[[noreturn]] void leave(int code) {
    for (;;) ::syscall(SYS_exit_group, code);
}

[[noreturn]] void be_child(pid_t parent, int answer, const std::function<void()>& ask) {
    ::setpgid(0, 0);
    // It ends with whoever asks, unless that is over already.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) leave(1);
    ::dup2(answer, STDOUT_FILENO);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(nothing, STDERR_FILENO);
    close_all_but_streams();
    ask();
    leave(0);
}

// Waits until the child can be reaped, or that time is over.
void await_end(pid_t pid, std::chrono::milliseconds limit) {
    const OwnedDescriptor child = open_end_of_child(pid);
    pollfd ended{child.get(), POLLIN, 0};
    const Deadline deadline = std::chrono::steady_clock::now() + limit;
    int ready = 0;
    do {
        ready = ::poll(&ended, 1, poll_timeout(deadline));
    } while (ready < 0 && errno == EINTR);
}

}  // namespace

BoundedChild::BoundedChild(const std::function<void()>& ask) {
    std::array<int, 2> pipe{-1, -1};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;
    answer_.reset(pipe[0]);
    const OwnedDescriptor given(pipe[1]);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) be_child(parent, given.get(), ask);
    if (pid_ > 0) ::setpgid(pid_, pid_);  // Whoever of the two comes first.
}

BoundedChild::Answer BoundedChild::await(Deadline deadline) {
    Answer answer;
    if (pid_ < 0) return answer;
    std::array<char, 4096> piece;
    while (answer.bytes.size() < kMaxChildAnswer) {
        pollfd ready{answer_.get(), POLLIN, 0};
        const int count = ::poll(&ready, 1, poll_timeout(deadline));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) {
            answer.end = AnswerEnd::hangs;
            break;
        }
        const ssize_t got = ::read(answer_.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            answer.end = AnswerEnd::answered;
            break;
        }
        answer.bytes.append(piece.data(), static_cast<std::size_t>(got));
    }
    end();
    return answer;
}

void BoundedChild::end() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    await_end(pid_, kReapLimit);
    ::waitpid(pid_, nullptr, WNOHANG);
    pid_ = -1;
}

}  // namespace ddprun::inline launch
