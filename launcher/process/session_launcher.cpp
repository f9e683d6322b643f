#include "launcher/process/session_launcher.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launcher/first_line.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/program_fault.hpp"
#include "rendezvous/base/check.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/system/quiet_thread.hpp"

namespace ddprun {
inline namespace launch {
namespace {

constexpr char kShell[] = "/bin/sh";

std::vector<unsigned long> bits_of(const std::vector<int>& numbers) {
    constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
    std::vector<unsigned long> bits;
    for (const int number : numbers) {
        const auto at = static_cast<std::size_t>(number);
        if (bits.size() <= at / kBits) bits.resize(at / kBits + 1);
        bits[at / kBits] |= 1UL << at % kBits;
    }
    return bits;
}

// Owns the strings and arrays that a ChildPlan points to.
class PreparedExec {
  public:
    PreparedExec(const WorkerSpec& spec, std::vector<std::string> candidates)
        : argv_(spec.argv),
          candidates_(std::move(candidates)),
          cpus_(bits_of(spec.cpus)),
          memory_nodes_(spec.memory_node < 0 ? std::vector<unsigned long>() : bits_of({spec.memory_node})) {
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
        ChildPlan plan{.spec = spec};
        plan.candidates = candidate_pointers_.data();
        plan.argv = argv_pointers_.data();
        plan.shell_argv = shell_pointers_.data();
        plan.environment = environment_pointers_.data();
        plan.parent = ::getpid();
        plan.report_fd = report_fd;
        if (!cpus_.empty()) plan.cpus = cpus_.data();
        plan.cpu_bytes = cpus_.size() * sizeof cpus_.front();
        if (!memory_nodes_.empty()) plan.memory_nodes = memory_nodes_.data();
        plan.memory_bytes = memory_nodes_.size() * sizeof memory_nodes_.front();
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
    std::vector<unsigned long> cpus_;
    std::vector<unsigned long> memory_nodes_;
    std::vector<char*> candidate_pointers_;
    std::vector<char*> argv_pointers_;
    std::vector<char*> shell_pointers_;
    std::vector<char*> environment_pointers_;
};

constexpr std::uint64_t kCloneIntoCgroup = 0x200000000;
constexpr std::uint64_t kCloneClearSighand = 0x100000000;
constexpr std::uint64_t kCloneVm = 0x100;
constexpr std::uint64_t kCloneVfork = 0x4000;

// The deepest frame holds one buffer of directory records.
constexpr std::size_t kChildStack = 32 * 1024;

// The arguments of the system call clone3 up to the cgroup; glibc has no wrapper for it.
struct CloneArguments {
    std::uint64_t flags = kCloneClearSighand;
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

[[noreturn]] void enter_child(const ChildPlan* plan) noexcept { become_program(*plan); }

// Returns the child's pid, or the negative errno.
//
// The child has a stack of its own inside our frame, because it must not write over the frame to which the
// system call returns in the parent. The frame pointer, which ends a debugger's walk there, is cleared last:
// it may hold an operand. Sanitizers keep books of every stack, so with them the child gets a copy of the
// memory.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
[[gnu::noinline]] long clone_child(CloneArguments& arguments, const ChildPlan& plan) {
    alignas(16) std::byte stack[kChildStack];
    arguments.flags |= kCloneVm | kCloneVfork;
    arguments.stack = reinterpret_cast<std::uintptr_t>(stack);
    arguments.stack_size = sizeof stack;
#if defined(__x86_64__)
    long result = SYS_clone3;
    asm volatile(
        "syscall\n\t"
        "test %%rax, %%rax\n\t"
        "jnz 1f\n\t"
        "mov %[plan], %%rdi\n\t"
        "mov %[enter], %%rax\n\t"
        "xor %%ebp, %%ebp\n\t"
        "call *%%rax\n"
        "1:"
        : "+a"(result)
        : "D"(&arguments), "S"(sizeof arguments), [plan] "r"(&plan), [enter] "r"(&enter_child)
        : "rcx", "r11", "cc", "memory");
    return result;
#else
    register long number asm("x8") = SYS_clone3;
    register long first asm("x0") = reinterpret_cast<long>(&arguments);
    register long second asm("x1") = sizeof arguments;
    asm volatile(
        "svc #0\n\t"
        "cbnz x0, 1f\n\t"
        "mov x0, %[plan]\n\t"
        "mov x16, %[enter]\n\t"
        "mov x29, xzr\n\t"
        "blr x16\n"
        "1:"
        : "+r"(first)
        : "r"(second), "r"(number), [plan] "r"(&plan), [enter] "r"(&enter_child)
        : "x16", "x30", "cc", "memory");
    return first;
#endif
}
#else
long clone_child(CloneArguments& arguments, const ChildPlan& plan) {
    const long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0) enter_child(&plan);
    return pid < 0 ? -errno : pid;
}
#endif

// It is a function of its own because the frame that called vfork must still be there when the parent goes
// on.
[[gnu::noinline]] pid_t fork_child(const ChildPlan& plan) {
    const pid_t pid = ::vfork();
    if (pid == 0) become_program(plan);
    return pid;
}

struct Spawned {
    pid_t pid = -1;
    int error_number = 0;  // where there is no child
    bool in_cgroup = false;
};

// Returns when the child runs its program or has given up, with all signals of the calling thread blocked.
// `cgroup` is -1 for none; where the kernel does not permit it, the child starts without.
Spawned spawn(ChildPlan plan, int cgroup) {
    CloneArguments arguments;
    if (cgroup >= 0) {
        arguments.flags |= kCloneIntoCgroup;
        arguments.cgroup = static_cast<std::uint64_t>(cgroup);
    }
    if (const long pid = clone_child(arguments, plan); pid > 0)
        return {.pid = static_cast<pid_t>(pid), .in_cgroup = cgroup >= 0};
    plan.signals_to_reset = kAllSignals;
    const pid_t pid = fork_child(plan);
    return {.pid = pid, .error_number = pid < 0 ? errno : 0};
}

std::uint64_t ignored_signals() {
    std::uint64_t ignored = 0;
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction action = {};
        if (::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            ignored |= signal_bit(signal);
    }
    return ignored;
}

void reap(pid_t pid) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

StartFailure system_failure(const WorkerSpec& spec, const char* call, int error_number) {
    return {error_number,
            "cannot start '" + spec.argv.front() + "': " + call + ": " + std::strerror(error_number) +
                limit_remedy(error_number),
            kExitSystem};
}

// Returns the first that is there; empty: none is.
std::string existing(const std::vector<std::string>& paths) {
    const auto exists = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
    const auto found = std::find_if(paths.begin(), paths.end(), exists);
    return found == paths.end() ? std::string() : *found;
}

// Says why the system may not execute a file that is there.
std::string why_denied(const std::string& file) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(file, ignored) || ::access(file.c_str(), X_OK) != 0)
        return execution_fault(file).text;
    const std::string runner = runner_of(beginning_of(file));
    return runner.empty() ? "permission denied (by the system's security module?)"
                          : "permission denied (its interpreter " + harmless_line(runner) + ")";
}

// The kernel says that a file is not there as well of the interpreter that it names.
std::string why_no_interpreter(const std::string& file) {
    std::string runner = runner_of(beginning_of(file));
    const bool windows = runner.ends_with('\r');
    if (windows) runner.pop_back();
    std::string why = "its interpreter" + (runner.empty() ? "" : " " + harmless_line(runner)) +
                      " (after #!, or of the binary) does not exist";
    if (windows)
        why +=
            " with the carriage return behind its name: the file has Windows line ends (sed -i 's/\\r$//' FILE)";
    return why;
}

// The kernel takes no string over 32 pages, and all of them a quarter of the stack at most.
std::string why_too_long(const WorkerSpec& spec) {
    std::size_t sum = 0, longest = 0;
    std::string which;
    const auto count = [&](std::size_t bytes, const std::string& name) {
        sum += bytes + 1;
        if (bytes > longest) which = name;
        longest = std::max(longest, bytes);
    };
    for (std::size_t i = 0; i < spec.argv.size(); ++i)
        count(spec.argv[i].size(), fmt::format("argument {}", i));
    for (const auto& [name, value] : spec.environment)
        count(name.size() + 1 + value.size(), "the variable " + harmless_line(name));
    return fmt::format(
        "{}: its arguments and environment have {} bytes, the longest is {} with {}; the system takes {} of one and "
        "a quarter of ulimit -s, {} of all",
        std::strerror(E2BIG), sum, which, longest, 32 * ::sysconf(_SC_PAGESIZE), ::sysconf(_SC_ARG_MAX));
}

StartFailure exec_failure(const WorkerSpec& spec, const std::vector<std::string>& candidates,
                          int error_number) {
    const std::string& name = spec.argv.front();
    const auto failure = [&name, error_number](const std::string& why, int exit_code = kExitNotExecutable) {
        return StartFailure{error_number, "cannot start '" + name + "': " + why, exit_code};
    };
    const auto not_there = [&] {
        const ProgramFault fault = execution_fault(name);
        return failure(fault.text, fault.exit_code);
    };
    const std::string file = existing(candidates);
    switch (error_number) {
        case ENOENT: return file.empty() ? not_there() : failure(why_no_interpreter(file));
        case EACCES: return failure(why_denied(file.empty() ? name : file));
        case ENOEXEC: return failure("it is a binary, but not for this kind of machine");
        case E2BIG: return failure(why_too_long(spec));
        case ETXTBSY: return failure("it is being written by another process (lsof names it)");
        case ELOOP: return not_there();
        default: return failure(std::strerror(error_number) + limit_remedy(error_number));
    }
}

StartFailure child_failure(const WorkerSpec& spec, const PreparedExec& prepared, const ChildReport& report) {
    // They stand for the steps before exec.
    constexpr const char* kCalls[] = {"setsid", "prctl", "sched_setaffinity (--bind, --numa-binding)",
                                      "/dev/null", "close_range"};
    if (report.step == ChildStep::exec) return exec_failure(spec, prepared.candidates(), report.error_number);
    check(report.step < ChildStep::exec, "a step of the child that does not exist");
    StartFailure failure = system_failure(spec, kCalls[static_cast<int>(report.step)], report.error_number);
    if (report.step == ChildStep::affinity && report.error_number == EINVAL)
        failure.text += fmt::format(" (none of the CPUs {} to {} is among those that this process may use)",
                                    spec.cpus.front(), spec.cpus.back());
    return failure;
}

// Waits for exec, which closes the pipe, or for the report. Bounded: the child does nothing that waits.
bool read_report(int fd, ChildReport& report) {
    ssize_t count = 0;
    do {
        count = ::read(fd, &report, sizeof report);
    } while (count < 0 && errno == EINTR);
    return count == static_cast<ssize_t>(sizeof report);
}

}  // namespace

SessionLauncher::SessionLauncher() : ignored_(ignored_signals()) {}

std::variant<SessionLauncher::Process, StartFailure> SessionLauncher::operator()(
    const boost::asio::any_io_executor& executor, const WorkerSpec& spec, int cgroup) {
    check(!spec.argv.empty(), "a worker needs a program");
    for (const StreamTarget* target : {&spec.standard_input, &spec.standard_output, &spec.standard_error}) {
        const auto* given = std::get_if<GivenDescriptor>(target);
        check(given == nullptr || given->fd > STDERR_FILENO, "a given descriptor is none of 0 to 2");
    }
    const auto path = spec.environment.find("PATH");
    PreparedExec prepared(spec, search_.candidates(spec.argv.front(), path == spec.environment.end()
                                                                          ? std::nullopt
                                                                          : std::optional(path->second)));
    OwnedDescriptor reader;
    OwnedDescriptor writer;
    if (!make_pipe(reader, writer)) return system_failure(spec, "pipe", errno);
    ChildPlan plan = prepared.plan(spec, writer.get());
    plan.signals_to_reset = ignored_;
    Spawned child;
    {
        // No signal handler of ours may run in the child while it still has our memory.
        const SignalsBlocked blocked;
        child = spawn(plan, cgroup);
    }
    writer.reset();
    if (child.pid < 0) return system_failure(spec, "fork", child.error_number);
    used_cgroup_ = child.in_cgroup;

    ChildReport report;
    if (read_report(reader.get(), report)) {
        reap(child.pid);
        return child_failure(spec, prepared, report);
    }
    OwnedDescriptor end = open_end_of_child(child.pid);
    if (!end) {
        const int error_number = errno;
        ::kill(-child.pid, SIGKILL);
        reap(child.pid);
        return system_failure(spec, "pidfd_open", error_number);
    }
    return Process(executor, child.pid, end.release());
}

}  // namespace launch
}  // namespace ddprun
