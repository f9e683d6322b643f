// ddpctl: lists, shows and ends the jobs of this user on this node, and follows those that `ddprun --detach` started.
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <variant>

#include "apps/cli/option_values.hpp"
#include "apps/cli/print.hpp"
#include "apps/ddpctl/command_line.hpp"
#include "apps/ddpctl/job_text.hpp"
#include "launcher/jobs/job_folder.hpp"
#include "launcher/view/job_socket.hpp"
#include "launcher/wall_clock.hpp"
#include "rendezvous/control/control_message.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/own_process.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun::inline app {
namespace {

constexpr std::size_t kBlock = 64 * 1024;

void write_out(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) fail_errno(errno, "cannot write to stdout");
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

// Its end of a name changes a file's attributes.
OwnedDescriptor watch(int file) {
    OwnedDescriptor changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    const std::string path = fmt::format("/proc/self/fd/{}", file);
    if (!changes || ::inotify_add_watch(changes.get(), path.c_str(), IN_MODIFY | IN_ATTRIB) < 0)
        fail_errno(errno, "cannot watch the job's output");
    return changes;
}

// A launcher whose folder something has removed makes it anew; of a folder that is not there no event can tell.
constexpr std::chrono::milliseconds kRemovedPause{200};

OwnedDescriptor take_interrupts() {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    ::sigprocmask(SIG_BLOCK, &interrupt, nullptr);
    OwnedDescriptor signals(::signalfd(-1, &interrupt, SFD_CLOEXEC));
    if (!signals) fail_errno(errno, "no signalfd");
    return signals;
}

// Reads as pread does, without EINTR.
std::string_view read_at(int fd, std::array<char, kBlock>& buffer, std::size_t size, std::uint64_t offset) {
    for (;;) {
        const ssize_t count = ::pread(fd, buffer.data(), size, static_cast<off_t>(offset));
        if (count >= 0) return {buffer.data(), static_cast<std::size_t>(count)};
        if (errno != EINTR) fail_errno(errno, "cannot read the job's output");
    }
}

// JobOutput is the output file of a job, printed to stdout from where one likes, and followed to the job's end.
//
// Blocks where stdout does. One thread.
class JobOutput {
  public:
    // Throws Error if the file cannot be opened.
    explicit JobOutput(const Job& job)
        : path_((job.folder / "output").string()),
          file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)),
          job_(job) {
        if (!file_ && errno == ENOENT && job.state == JobState::running)
            fail(Errc::refused,
                 fmt::format("job {} was not started with --detach: what it prints is where its launcher "
                             "runs (and in its --log-dir)",
                             job.id));
        if (!file_) fail_errno(errno, fmt::format("cannot open '{}'", path_));
    }

    // The next print begins with the last `lines` lines of what is there now.
    void seek_tail(std::uint64_t lines) {
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

    // Prints what is there and was not printed. Throws Error if stdout does not take it.
    void print() {
        std::array<char, kBlock> buffer;
        struct stat info {};
        // Whoever rotates logs has emptied it, and what stands there now has come since.
        if (::fstat(file_.get(), &info) == 0 && static_cast<std::uint64_t>(info.st_size) < offset_)
            offset_ = 0;
        for (;;) {
            const std::string_view block = read_at(file_.get(), buffer, buffer.size(), offset_);
            if (block.empty()) return;
            write_out(block);
            offset_ += block.size();
        }
    }

    enum class Stop { job_ended, interrupted };
    // Prints what comes until the launcher has ended; if `interruptible`, until a SIGINT, which then ends
    // nothing else. Every wait is for the file, the launcher and the signal together.
    Stop follow(bool interruptible) {
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

  private:
    bool exists() const { return ::access(path_.c_str(), F_OK) == 0; }

    // Goes on in the file that the launcher has made anew, where that is another one by now: it has the end of what this one had.
    bool reopen() {
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

    std::string path_;
    OwnedDescriptor file_;
    Job job_;
    std::uint64_t offset_ = 0;  // of the first byte not printed
};

// attach shows so many lines of what was printed before.
constexpr std::uint64_t kAttachLines = 10;
constexpr std::size_t kMaxResultShown = 64 << 20;

void say(const std::string& line) { std::fprintf(stderr, "ddpctl: %s\n", line.c_str()); }

// The commands, each an overload for std::visit.
class Commands {
  public:
    explicit Commands(const std::filesystem::path& jobs) : jobs_(jobs) {}

    int operator()(const ShowCommand& command) const {
        print(command.text);
        return 0;
    }

    int operator()(const ListCommand& command) const {
        const std::vector<Job> jobs = all();
        if (!command.json) {
            print(list_text(jobs, unix_time_now_ms()));
            return 0;
        }
        std::vector<JobFacts> facts;
        for (const Job& job : jobs) {
            facts.push_back({job, std::nullopt, read_result(job)});
            try {
                facts.back().status = status_of(job);
            } catch (const Error&) {
                // A job that has ended since, or does not answer, does not keep the others from being listed.
            }
        }
        print(list_json(facts));
        return 0;
    }

    int operator()(const StatusCommand& command) const {
        Job job = find(command.id);
        std::optional<AgentStatus> status;
        try {
            status = status_of(job);
        } catch (const Error&) {
            // It may have ended since it was looked at.
            job = find(job.id);
            if (job.state == JobState::running) throw;
        }
        print(command.json ? status_json({job, status, read_result(job)})
                           : status_text(job, status, unix_time_now_ms()));
        return 0;
    }

    int operator()(const LogsCommand& command) const {
        JobOutput output(find(command.id));
        if (command.tail) output.seek_tail(*command.tail);
        if (command.follow) {
            output.follow(false);
        } else {
            output.print();
        }
        return 0;
    }

    int operator()(const AttachCommand& command) const {
        const Job job = find(command.id);
        JobOutput output(job);
        output.seek_tail(kAttachLines);
        if (output.follow(true) == JobOutput::Stop::interrupted) {
            say(fmt::format("job {} goes on; 'ddpctl attach' follows it again, 'ddpctl kill' ends it",
                            job.id));
            return kExitSignalBase + SIGINT;
        }
        block_signals();
        return exit_code_of(find(job.id));
    }

    int operator()(const KillCommand& command) const {
        const Job job = find(command.id);
        const bool needs_process = command.wait || command.signal == SIGKILL;
        const auto launcher = needs_process ? open_launcher(job) : std::nullopt;
        const int process = launcher ? launcher->get() : -1;
        const bool lived = launcher || launcher_lives(job);
        if (lived && send(job, process, command.signal) && command.wait) {
            pollfd ended{process, POLLIN, 0};
            while (::poll(&ended, 1, -1) < 0 && errno == EINTR) {
            }
        }
        block_signals();
        if (lived && (!command.wait || launcher_lives(job))) return 0;
        // Of a job in the foreground nothing is left.
        const auto now = find_job(all(), job.id);
        const Job* ended = std::get_if<Job>(&now);
        print(fmt::format("{}: {}\n", job.id, ended != nullptr ? state_text(*ended) : "ended"));
        return 0;
    }

  private:
    std::vector<Job> all() const { return is_private_folder(jobs_) ? list_jobs(jobs_) : std::vector<Job>(); }

    Job find(const std::string& id) const { return value_or_throw<UsageError>(find_job(all(), id)); }

    static std::optional<AgentStatus> status_of(const Job& job) {
        if (job.state != JobState::running) return std::nullopt;
        return ask_status(job.folder);
    }

    static std::optional<std::string> read_result(const Job& job) {
        const auto result = read_small_file(job.folder / "result.json", kMaxResultShown);
        return result.has_value() ? std::optional(*result) : std::nullopt;
    }

    static int exit_code_of(const Job& job) {
        if (job.end) return job.end->exit_code;
        say(fmt::format("job {} is lost: its launcher ended without a result", job.id));
        return kExitUnavailable;
    }

    // True if the signal ends the job. SIGKILL needs nobody to take it.
    static bool send(const Job& job, int launcher, int signal) {
        if (signal == SIGKILL) {
            if (::syscall(SYS_pidfd_send_signal, launcher, SIGKILL, nullptr, 0) != 0 && errno != ESRCH)
                fail_errno(errno, "cannot kill the launcher");
            return true;
        }
        try {
            const SignalEffect effect = send_signal(job.folder, signal);
            if (!effect.refusal.empty()) throw UsageError("--signal: " + effect.refusal);
            return effect.ends_job;
        } catch (const Error&) {
            // A launcher that ends at this moment does not answer any more.
            if (launcher_lives(job)) throw;
            return true;
        }
    }

    std::filesystem::path jobs_;
};

int fail_with(int code, const std::exception& error, const char* what = "") {
    std::fprintf(stderr, "ddpctl: %s%s\n", what, error.what());
    return code;
}

}  // namespace

}  // namespace ddprun::inline app

int main(int argc, char** argv) {
    using namespace ddprun;
    open_missing_streams();
    try {
        const auto command = parse_control_command({argv + 1, argv + argc});
        return std::visit(Commands(find_jobs_folder({current_environment(), ::geteuid()})), command);
    } catch (const UsageError& error) {
        return fail_with(kExitUsage, error);
    } catch (const boost::system::system_error& error) {
        return fail_with(kExitSystem, error);
    } catch (const std::exception& error) {
        return fail_with(kExitInternal, error, "internal error: ");
    }
}
