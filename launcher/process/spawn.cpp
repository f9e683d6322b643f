#include "launcher/process/spawn.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>

namespace ddprun::inline launch {
namespace {

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

// The child's pid, or the negative errno.
//
// The child has a stack of its own inside our frame, because it must not write over the frame to which the
// system call returns in the parent. The frame pointer, which ends a debugger's walk there, is cleared last: it
// may hold an operand. Sanitizers keep books of every stack, so with them the child gets a copy
// of the memory.
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

// A function of its own: the frame that called vfork must still be there when the parent goes on.
[[gnu::noinline]] pid_t fork_child(const ChildPlan& plan) {
    const pid_t pid = ::vfork();
    if (pid == 0) become_program(plan);
    return pid;
}

}  // namespace

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

}  // namespace ddprun::inline launch
