#include "launcher/jobs/detach.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <variant>

#include "launcher/harmless_text.hpp"
#include "launcher/process/descriptors.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kRelayedAtOnce = 16 * 1024;

OwnedDescriptor need(int fd, const std::string& what) {
    if (fd < 0) fail_errno(errno, "cannot detach: " + what);
    return OwnedDescriptor(fd);
}

sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
    return set;
}

// Reads what there is, without waiting for more. False at the end of a pipe.
bool read_available(int fd, std::string& text) {
    std::array<char, kRelayedAtOnce> buffer;
    for (;;) {
        const ssize_t count = ::read(fd, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count < 0;
        text.append(buffer.data(), static_cast<std::size_t>(count));
    }
}

void show(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

// tell_started() sends this: how much was in the output when the workers ran, and the id.
struct StartNotice {
    std::size_t output_size = 0;
    std::string id;
};

// Returns nothing while the line is not whole.
std::optional<StartNotice> parse_notice(std::string_view line) {
    const std::size_t blank = line.find(' ');
    const auto size = whole_number<std::size_t>(line.substr(0, blank));
    if (!size || !line.ends_with('\n')) return std::nullopt;
    return StartNotice{*size, std::string(line.substr(blank + 1, line.size() - blank - 2))};
}

// The parent lives here: from the fork to its exit code.
class Starter {
  public:
    Starter(pid_t launcher, OwnedDescriptor started, OwnedDescriptor output, OwnedDescriptor changes,
            OwnedDescriptor signals)
        : launcher_(launcher),
          started_(std::move(started)),
          output_(std::move(output)),
          changes_(std::move(changes)),
          signals_(std::move(signals)) {}

    int wait() {
        while (!status_) {
            take_output();
            take_notice();
            // A parent that was told to end the job stays to see it end.
            if (notice_ && !signalled_) return print_id();
            show_lines(text_.size());
            wait_for_event();
            take_signals();
        }
        block_signals();
        take_output();
        take_notice();
        return notice_ && !signalled_ ? print_id() : failed();
    }

  private:
    void wait_for_event() {
        std::array<pollfd, 3> events{{{signals_.get(), POLLIN, 0},
                                      {changes_.get(), POLLIN, 0},
                                      {notice_ || closed_ ? -1 : started_.get(), POLLIN, 0}}};
        if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR)
            fail_errno(errno, "cannot wait for the launcher");
        // A launcher that has closed it without a notice ends: that is the event to wait for.
        closed_ = closed_ || (events[2].revents & (POLLHUP | POLLIN)) == POLLHUP;
    }

    void take_signals() {
        signalfd_siginfo info{};
        while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
            if (info.ssi_signo == SIGCHLD) continue;
            signalled_ = true;
            ::kill(launcher_, static_cast<int>(info.ssi_signo));
        }
        int status = 0;
        if (::waitpid(launcher_, &status, WNOHANG) == launcher_) status_ = decode_wait_status(status);
    }

    void take_output() {
        std::string ignored;
        read_available(changes_.get(), ignored);
        read_available(output_.get(), text_);
    }

    // Comes after take_output(): while there is no notice, all that was taken was said before it.
    void take_notice() {
        read_available(started_.get(), notice_text_);
        if (!notice_) notice_ = parse_notice(notice_text_);
    }

    // The launcher's own lines in the next `size` bytes, up to the first line that is a worker's.
    void show_lines(std::size_t size) {
        const std::string_view all = std::string_view(text_).substr(0, size);
        std::string_view rest = all;
        std::size_t newline = 0;
        while (rest.starts_with(kLauncherMark) && (newline = rest.find('\n')) != std::string_view::npos)
            rest.remove_prefix(newline + 1);
        const std::size_t shown = all.size() - rest.size();
        show(all.substr(0, shown));
        text_.erase(0, shown);
        shown_ += shown;
    }

    int print_id() {
        block_signals();
        if (notice_->output_size > shown_) show_lines(notice_->output_size - shown_);
        const std::string line = notice_->id + "\n";
        if (std::fputs(line.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
        show(fmt::format("{}the job runs, but its id cannot be written to stdout: {}", kLauncherMark, line));
        return kExitSystem;
    }

    int failed() {
        show(text_);
        // A disk that is full does not take what the launcher has to say.
        if (shown_ + text_.size() == 0 && shell_code(*status_) != 0 &&
            std::holds_alternative<Exited>(*status_))
            show(fmt::format(
                "{}the launcher ended with {} before the workers ran, and nothing of what it said could be "
                "written to its output; is that disk full? (see DDPRUN_JOBS_DIR)\n",
                kLauncherMark, to_string(*status_)));
        if (std::holds_alternative<Signaled>(*status_))
            show(fmt::format("{}the launcher ended by {} before the workers ran\n", kLauncherMark,
                             to_string(*status_)));
        return shell_code(*status_);
    }

    pid_t launcher_;
    OwnedDescriptor started_;
    OwnedDescriptor output_;
    OwnedDescriptor changes_;
    OwnedDescriptor signals_;
    std::optional<ExitStatus> status_;
    std::optional<StartNotice> notice_;
    std::string notice_text_;  // what came of the notice
    std::string text_;         // of the output, what was not shown yet
    std::size_t shown_ = 0;    // bytes of the output before that
    bool signalled_ = false;
    bool closed_ = false;
};

void become_launcher(const sigset_t& mask, int output) {
    ::setsid();
    const OwnedDescriptor null = need(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null");
    if (::dup2(null.get(), STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
        ::dup2(output, STDERR_FILENO) < 0) {
        fail_errno(errno, "cannot detach: dup2");
    }
    // A lock that the starting script holds by a descriptor of its own, or a pipe, is not the job's.
    close_inherited_from(STDERR_FILENO + 1);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

}  // namespace

Detached detach(const std::filesystem::path& output) {
    OwnedDescriptor writer = need(
        ::open(output.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600), output.string());
    OwnedDescriptor reader = need(::open(output.c_str(), O_RDONLY | O_CLOEXEC), output.string());
    OwnedDescriptor changes = need(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK), "inotify");
    if (::inotify_add_watch(changes.get(), output.c_str(), IN_MODIFY) < 0)
        fail_errno(errno, "cannot detach: no watch on " + output.string());
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail_errno(errno, "cannot detach: pipe");
    OwnedDescriptor started(pipe[0]);
    OwnedDescriptor starter(pipe[1]);
    const sigset_t watched = watched_signals();
    OwnedDescriptor signals = need(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK), "signalfd");

    // The parent may have ignored it, and then no end of a child would be told.
    ::signal(SIGCHLD, SIG_DFL);
    sigset_t before;
    ::sigprocmask(SIG_BLOCK, &watched, &before);
    const pid_t launcher = ::fork();
    if (launcher < 0) {
        const int error_number = errno;
        ::sigprocmask(SIG_SETMASK, &before, nullptr);
        fail_errno(error_number, "cannot detach: fork");
    }
    if (launcher == 0) {
        become_launcher(before, writer.get());
        return {.exit_code = {}, .starter = std::move(starter)};
    }
    starter.reset();
    writer.reset();
    Starter parent(launcher, std::move(started), std::move(reader), std::move(changes), std::move(signals));
    return {.exit_code = parent.wait(), .starter = OwnedDescriptor()};
}

void tell_started(OwnedDescriptor starter, const std::string& id) {
    struct stat output {};
    if (::fstat(STDERR_FILENO, &output) != 0) output.st_size = 0;
    const std::string line = fmt::format("{} {}\n", output.st_size, id);
    [[maybe_unused]] const ssize_t ignored = ::write(starter.get(), line.data(), line.size());
}

}  // namespace launch
}  // namespace ddprun
