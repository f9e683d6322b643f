#include "launcher/process/child_exec.hpp"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <string_view>

#include "launcher/process/descriptors.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// glibc takes this when PATH is unset.
constexpr std::string_view kDefaultPath = "/bin:/usr/bin";

}  // namespace

std::vector<std::string> exec_candidates(const std::string& name, const std::optional<std::string>& path) {
    if (name.empty()) return {};
    if (name.find('/') != std::string::npos) return {name};
    std::vector<std::string> candidates;
    std::string_view rest = path ? std::string_view(*path) : kDefaultPath;
    for (;;) {
        const auto colon = rest.find(':');
        const std::string_view directory = rest.substr(0, colon);
        candidates.push_back(directory.empty() ? "./" + name : std::string(directory) + "/" + name);
        if (colon == std::string_view::npos) return candidates;
        rest.remove_prefix(colon + 1);
    }
}

std::string find_executable(const std::string& name, const std::optional<std::string>& path) {
    for (const std::string& candidate : exec_candidates(name, path)) {
        std::error_code ignored;
        if (std::filesystem::is_regular_file(candidate, ignored) && ::access(candidate.c_str(), X_OK) == 0)
            return std::filesystem::absolute(candidate, ignored).lexically_normal().string();
    }
    return {};
}

const std::vector<std::string>& ExecSearch::candidates(const std::string& name,
                                                       const std::optional<std::string>& path) {
    if (!candidates_.empty() && name == name_ && path == path_) return candidates_;
    name_ = name;
    path_ = path;
    candidates_ = exec_candidates(name, path);
    const auto exists = [](const std::string& file) { return ::access(file.c_str(), F_OK) == 0; };
    if (candidates_.size() > 1) std::stable_partition(candidates_.begin(), candidates_.end(), exists);
    return candidates_;
}

namespace {

// The parent never sees this code: the report says what happened.
constexpr int kSetupFailed = 127;

[[noreturn]] void give_up(const ChildPlan& plan, ChildStep step, int error_number) noexcept {
    const ChildReport report{step, error_number};
    // A pipe takes so few bytes whole; if the parent is gone, nobody is left to be told.
    [[maybe_unused]] ssize_t written = ::write(plan.report_fd, &report, sizeof report);
    ::_exit(kSetupFailed);
}

// Exec turns handlers into defaults but keeps "ignored", so an ignored SIGPIPE of ours would reach the
// worker. Handlers are reset before the mask is opened: none of ours may run in memory borrowed from the
// parent.
void reset_signals(const ChildPlan& plan) noexcept {
    struct sigaction action = {};
    sigemptyset(&action.sa_mask);
    for (int signal = 1; signal < NSIG; ++signal) {
        const bool ignore = signal == SIGHUP && plan.spec.ignore_hangup;
        if (!ignore && (plan.signals_to_reset & signal_bit(signal)) == 0) continue;
        action.sa_handler = ignore ? SIG_IGN : SIG_DFL;
        ::sigaction(signal, &action, nullptr);
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// This makes the system calls itself: the C library's wrapper of one may do more, and the other has none.
int bind_to_place(const ChildPlan& plan) noexcept {
    if (plan.cpus != nullptr && ::syscall(SYS_sched_setaffinity, 0, plan.cpu_bytes, plan.cpus) < 0)
        return errno;
    // Other memory is better than none, so one node is preferred and not demanded. The kernel takes one bit
    // less than it is told.
    if (plan.memory_nodes != nullptr)
        ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, plan.memory_nodes, plan.memory_bytes * CHAR_BIT + 1);
    return 0;
}

int redirect(int stream, const StreamTarget& target) noexcept {
    if (const auto* given = std::get_if<GivenDescriptor>(&target)) {
        return ::dup2(given->fd, stream) < 0 ? errno : 0;
    }
    if (*std::get_if<Stdio>(&target) == Stdio::inherit) return 0;
    int fd = ::open("/dev/null", (stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
    if (fd < 0) return errno;
    // A launcher started without this stream got the very number; dup2 would then leave it close-on-exec.
    if (fd == stream) return ::fcntl(fd, F_SETFD, 0) < 0 ? errno : 0;
    if (::dup2(fd, stream) < 0) return errno;
    ::close(fd);
    return 0;
}

// The shell would take a binary of another machine for a script and complain of its syntax.
bool is_binary(const char* path) noexcept {
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    char magic[] = {0, 0, 0, 0};
    const ssize_t count = ::read(fd, magic, sizeof magic);
    ::close(fd);
    return count == 4 && magic[0] == 0x7f && magic[1] == 'E' && magic[2] == 'L' && magic[3] == 'F';
}

// A file without "#!" is a script for the shell, as execvp has it.
int execute(const ChildPlan& plan, const char* path) noexcept {
    ::execve(path, plan.argv, plan.environment);
    if (errno != ENOEXEC) return errno;
    if (is_binary(path)) return ENOEXEC;
    plan.shell_argv[1] = const_cast<char*>(path);
    ::execve(plan.shell_argv[0], plan.shell_argv, plan.environment);
    return errno;
}

bool try_next_directory(int error_number) noexcept {
    switch (error_number) {
        case EACCES:
        case ENOENT:
        case ENOTDIR:
        case ENAMETOOLONG:
        case ESTALE:
        case ENODEV:
        case ETIMEDOUT: return true;
        default: return false;
    }
}

int execute_first(const ChildPlan& plan) noexcept {
    bool denied = false;
    for (const char* const* path = plan.candidates; *path != nullptr; ++path) {
        const int error_number = execute(plan, *path);
        if (!try_next_directory(error_number)) return error_number;
        denied = denied || error_number == EACCES;
    }
    return denied ? EACCES : ENOENT;
}

}  // namespace

void become_program(const ChildPlan& plan) noexcept {
    if (::setsid() < 0) give_up(plan, ChildStep::session, errno);
    if (::prctl(PR_SET_PDEATHSIG, plan.spec.death_signal) < 0)
        give_up(plan, ChildStep::parent_death_signal, errno);
    if (::getppid() != plan.parent) ::_exit(kSetupFailed);
    int error_number = bind_to_place(plan);
    if (error_number != 0) give_up(plan, ChildStep::affinity, error_number);
    reset_signals(plan);
    error_number = redirect(STDIN_FILENO, plan.spec.standard_input);
    if (error_number == 0) error_number = redirect(STDOUT_FILENO, plan.spec.standard_output);
    if (error_number == 0) error_number = redirect(STDERR_FILENO, plan.spec.standard_error);
    if (error_number == 0 && plan.spec.takes_terminal && ::ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
        error_number = errno;
    if (error_number != 0) give_up(plan, ChildStep::standard_streams, error_number);
    error_number = close_on_exec_from(STDERR_FILENO + 1);
    if (error_number != 0) give_up(plan, ChildStep::descriptors, error_number);
    restore_open_files(plan.spec.open_files);
    give_up(plan, ChildStep::exec, execute_first(plan));
}

}  // namespace launch
}  // namespace ddprun
