#include "launcher/process/session_launcher.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include "launcher/process/child_setup.hpp"
#include "launcher/process/exec_search.hpp"
#include "rendezvous/system/check.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
namespace {

constexpr char kShell[] = "/bin/sh";

// Owns the strings and arrays that a ChildPlan points to.
class PreparedExec {
  public:
    explicit PreparedExec(const WorkerSpec& spec) : argv_(spec.argv) {
        auto path = spec.environment.find("PATH");
        candidates_ = exec_candidates(argv_.front(), path == spec.environment.end()
                                                         ? std::nullopt
                                                         : std::optional<std::string>(path->second));
        environment_.reserve(spec.environment.size());
        for (const auto& [name, value] : spec.environment) environment_.push_back(name + "=" + value);
        candidate_pointers_ = pointers(candidates_);
        argv_pointers_ = pointers(argv_);
        environment_pointers_ = pointers(environment_);
        shell_pointers_ = argv_pointers_;
        shell_pointers_.insert(shell_pointers_.begin(), const_cast<char*>(kShell));
    }

    const std::vector<std::string>& candidates() const { return candidates_; }

    ChildPlan plan(const WorkerSpec& spec, int report_fd) {
        ChildPlan plan;
        plan.candidates = candidate_pointers_.data();
        plan.argv = argv_pointers_.data();
        plan.shell_argv = shell_pointers_.data();
        plan.environment = environment_pointers_.data();
        plan.parent = ::getpid();
        plan.report_fd = report_fd;
        plan.standard_input = spec.standard_input;
        plan.standard_output = spec.standard_output;
        plan.standard_error = spec.standard_error;
        plan.ignore_hangup = spec.ignore_hangup;
        plan.takes_terminal = spec.takes_terminal;
        return plan;
    }

  private:
    static std::vector<char*> pointers(std::vector<std::string>& texts) {
        std::vector<char*> result;
        result.reserve(texts.size() + 1);
        for (std::string& text : texts) result.push_back(text.data());
        result.push_back(nullptr);
        return result;
    }

    std::vector<std::string> argv_;
    std::vector<std::string> candidates_;
    std::vector<std::string> environment_;
    std::vector<char*> candidate_pointers_;
    std::vector<char*> argv_pointers_;
    std::vector<char*> shell_pointers_;
    std::vector<char*> environment_pointers_;
};

// The arguments of the system call clone3 up to the cgroup; glibc has no wrapper for it.
struct CloneArguments {
    std::uint64_t flags = 0x200000000;  // CLONE_INTO_CGROUP
    std::uint64_t pidfd = 0;
    std::uint64_t child_tid = 0;
    std::uint64_t parent_tid = 0;
    std::uint64_t exit_signal = SIGCHLD;
    std::uint64_t stack = 0;
    std::uint64_t stack_size = 0;
    std::uint64_t tls = 0;
    std::uint64_t set_tid = 0;
    std::uint64_t set_tid_size = 0;
    std::uint64_t cgroup = 0;
};

// A fork whose child is born in the cgroup; -1 where that is not possible.
pid_t spawn_in_cgroup(const ChildPlan& plan, int cgroup) {
    CloneArguments arguments;
    arguments.cgroup = static_cast<std::uint64_t>(cgroup);
    const pid_t pid = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
    if (pid == 0) become_program(plan);
    return pid;
}

// A function of its own: the frame that called vfork must still be there when the parent goes on.
[[gnu::noinline]] pid_t spawn(const ChildPlan& plan) {
    const pid_t pid = ::vfork();
    if (pid == 0) become_program(plan);
    return pid;
}

void reap(pid_t pid) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

StartFailure system_failure(const WorkerSpec& spec, const char* call, int error_number) {
    return {error_number,
            "cannot start '" + spec.argv.front() + "': " + call + ": " + std::strerror(error_number),
            kExitSystem};
}

bool exists(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
        if (::access(path.c_str(), F_OK) == 0) return true;
    }
    return false;
}

bool is_directory(const std::string& path) {
    struct stat entry {};
    return ::stat(path.c_str(), &entry) == 0 && S_ISDIR(entry.st_mode);
}

StartFailure exec_failure(const WorkerSpec& spec, const std::vector<std::string>& candidates,
                          int error_number) {
    const std::string& name = spec.argv.front();
    const std::string start = "cannot start '" + name + "': ";
    const bool searched = name.find('/') == std::string::npos;
    switch (error_number) {
        case ENOENT:
            // The kernel says so as well when the file is there but not the interpreter that it names.
            if (exists(candidates)) {
                return {error_number, start + "its interpreter (after #!, or of the binary) does not exist",
                        kExitNotExecutable};
            }
            return {error_number, start + (searched ? "not found on PATH" : "no such file"), kExitNotFound};
        case EACCES:
            if (is_directory(name)) return {error_number, start + "it is a directory", kExitNotExecutable};
            return {error_number, start + "permission denied (is it executable?)", kExitNotExecutable};
        case ENOEXEC:
            return {error_number, start + "it is a binary, but not for this kind of machine",
                    kExitNotExecutable};
        default: return {error_number, start + std::strerror(error_number), kExitNotExecutable};
    }
}

StartFailure child_failure(const WorkerSpec& spec, const PreparedExec& prepared, const ChildReport& report) {
    switch (report.step) {
        case ChildStep::session: return system_failure(spec, "setsid", report.error_number);
        case ChildStep::parent_death_signal: return system_failure(spec, "prctl", report.error_number);
        case ChildStep::standard_streams: return system_failure(spec, "/dev/null", report.error_number);
        case ChildStep::descriptors: return system_failure(spec, "close_range", report.error_number);
        case ChildStep::exec: return exec_failure(spec, prepared.candidates(), report.error_number);
    }
    check(false, "a step of the child that does not exist");
    return {};
}

// Waits for exec, which closes the pipe, or for the report. Bounded: the child does nothing that waits.
bool read_report(int fd, ChildReport& report) {
    ssize_t count = 0;
    do {
        count = ::read(fd, &report, sizeof report);
    } while (count < 0 && errno == EINTR);
    return count == static_cast<ssize_t>(sizeof report);
}

// A pipe, close-on-exec, whose writing end is none of the standard streams; 0 or an errno.
int make_report_pipe(OwnedDescriptor& reader, OwnedDescriptor& writer) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno;
    reader.reset(ends[0]);
    writer.reset(ends[1]);
    if (writer.get() > STDERR_FILENO) return 0;
    const int moved = ::fcntl(writer.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0) return errno;
    writer.reset(moved);
    return 0;
}

}  // namespace

pid_t SessionLauncher::fork_for(const ChildPlan& plan) {
    used_cgroup_ = false;
    if (cgroup_ >= 0) {
        const pid_t pid = spawn_in_cgroup(plan, cgroup_);
        used_cgroup_ = pid > 0;
        if (used_cgroup_) return pid;
    }
    return spawn(plan);
}

std::variant<SessionLauncher::Process, StartFailure> SessionLauncher::operator()(
    const boost::asio::any_io_executor& executor, const WorkerSpec& spec) {
    check(!spec.argv.empty(), "a worker needs a program");
    for (const StreamTarget* target : {&spec.standard_input, &spec.standard_output, &spec.standard_error}) {
        const auto* given = std::get_if<GivenDescriptor>(target);
        check(given == nullptr || given->fd > STDERR_FILENO, "a given descriptor is none of 0 to 2");
    }
    PreparedExec prepared(spec);
    OwnedDescriptor reader;
    OwnedDescriptor writer;
    if (int error_number = make_report_pipe(reader, writer))
        return system_failure(spec, "pipe", error_number);

    const ChildPlan plan = prepared.plan(spec, writer.get());
    pid_t pid = -1;
    int fork_error = 0;
    {
        // No signal handler of ours may run in the child while it still has our memory.
        const SignalsBlocked blocked;
        pid = fork_for(plan);
        fork_error = errno;
    }
    writer.reset();
    if (pid < 0) return system_failure(spec, "fork", fork_error);

    ChildReport report;
    if (read_report(reader.get(), report)) {
        reap(pid);
        return child_failure(spec, prepared, report);
    }
    OwnedDescriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd.get() < 0) {
        const int error_number = errno;
        ::kill(-pid, SIGKILL);
        reap(pid);
        return system_failure(spec, "pidfd_open", error_number);
    }
    return Process(executor, pid, pidfd.release());
}

}  // namespace ddprun
