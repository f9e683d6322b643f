#include "rendezvous/system/quiet_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <utility>

namespace ddprun {
inline namespace base {

SignalsBlocked::SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void block_signals() noexcept {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int signal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP})
        sigdelset(&blocked, signal);
    ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

std::thread start_without_signals(std::function<void()> body) {
    const SignalsBlocked blocked;
    try {
        return std::thread(std::move(body));
    } catch (const std::system_error& error) {
        throw std::system_error(error.code(), "cannot start a thread (see ulimit -u and ulimit -v)");
    }
}

namespace {

constexpr std::uint64_t kTurnNanoseconds = 100'000;  // the least that Linux grants

}  // namespace

void ask_for_short_turns() {
    struct {
        std::uint32_t size;
        std::uint32_t policy;
        std::uint64_t flags;
        std::int32_t nice;
        std::uint32_t priority;
        std::uint64_t runtime;
        std::uint64_t deadline;
        std::uint64_t period;
    } attributes{};
    constexpr auto kSize = sizeof(attributes);
    if (::syscall(SYS_sched_getattr, 0, &attributes, kSize, 0) != 0 || attributes.policy != SCHED_OTHER)
        return;
    attributes.runtime = kTurnNanoseconds;
    ::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace base
}  // namespace ddprun
