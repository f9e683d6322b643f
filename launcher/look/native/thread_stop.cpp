#include "launcher/look/native/thread_stop.hpp"

#include <elf.h>
#include <fmt/core.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <thread>

#include "launcher/look/kernel_view.hpp"
#include "rendezvous/system/small_file.hpp"

namespace ddprun {
inline namespace launch {
namespace {

using Clock = std::chrono::steady_clock;
using boost::system::error_code;

constexpr int kAlarm = SIGURG;              // ignored by default, and sent by nothing here
constexpr std::size_t kBelowStack = 128;    // bytes that a function may use below its stack pointer
constexpr std::size_t kMaxRegisters = 128;  // words

error_code system_error_of(int number) { return {number, boost::system::system_category()}; }

// StopAlarm interrupts a wait of this thread at the deadline, and again and again: the first time may be
// before the wait begins. By the kernel's own calls: glibc had them in a library of their own.
class StopAlarm {
  public:
    explicit StopAlarm(std::chrono::nanoseconds after) {
        struct sigaction action {};
        action.sa_handler = [](int) {};
        ::sigaction(kAlarm, &action, nullptr);
        sigset_t alarm;
        sigemptyset(&alarm);
        sigaddset(&alarm, kAlarm);
        ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = kAlarm;
        event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
        is_set_ = ::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer_) == 0;
        const itimerspec times{{0, 1'000'000}, {0, std::max<long>(after.count(), 1)}};
        if (is_set_) ::syscall(SYS_timer_settime, timer_, 0, &times, nullptr);
    }
    StopAlarm(const StopAlarm&) = delete;
    StopAlarm& operator=(const StopAlarm&) = delete;
    ~StopAlarm() {
        if (is_set_) ::syscall(SYS_timer_delete, timer_);
    }

    bool is_set() const { return is_set_; }

  private:
    int timer_ = 0;
    bool is_set_ = false;
};

bool runs(pid_t process, pid_t thread) {
    constexpr std::size_t kMaxStat = 4096;
    const auto line = read_small_file(fmt::format("/proc/{}/task/{}/stat", process, thread), kMaxStat);
    ThreadView view;
    return line.has_value() && parse_thread_stat(*line, view) && view.state == 'R';
}

// Returns the signal that the stop has held up, and that the thread is to get: 0 for none.
boost::system::result<int> await_stop(pid_t thread, Clock::time_point deadline) {
    constexpr int kEvent = 8;  // above the signal
    for (;;) {
        siginfo_t info{};
        if (::waitid(P_PID, static_cast<id_t>(thread), &info, WSTOPPED | __WALL) == 0)
            return info.si_status >> kEvent == 0 ? info.si_status : 0;
        if (errno != EINTR) return system_error_of(errno);
        if (Clock::now() >= deadline) return system_error_of(ETIMEDOUT);
    }
}

error_code copy_stopped(pid_t thread, const std::vector<Mapping>& mappings, const MemoryReader& memory,
                        StoppedThread& copy) {
    std::vector<std::uint64_t> words(kMaxRegisters);
    iovec room{words.data(), words.size() * sizeof(words.front())};
    if (::ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &room) != 0) return system_error_of(errno);
    words.resize(room.iov_len / sizeof(words.front()));
    copy.registers = registers_of(words, register_table());
    if (copy.registers.all.empty()) return system_error_of(ENOTSUP);  // of another architecture
    const Mapping* stack = mapping_of(mappings, copy.registers.stack_pointer);
    if (stack == nullptr) return {};
    copy.begin = std::max(stack->begin, copy.registers.stack_pointer - kBelowStack);
    copy.stack.resize(std::min<std::size_t>(kMaxCopiedStack, stack->end - copy.begin));
    if (!memory.read(copy.begin, copy.stack)) copy.stack.clear();
    return {};
}

// Whatever happens here, the kernel lets the thread go on when this thread ends.
error_code stop_and_copy(pid_t thread, const std::vector<Mapping>& mappings, const MemoryReader& memory,
                         StoppedThread& copy) {
    const StopAlarm alarm(kMaxStop);
    if (!alarm.is_set()) return system_error_of(EAGAIN);
    if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return system_error_of(errno);
    const auto begin = Clock::now();
    if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return system_error_of(errno);
    const auto held_up = await_stop(thread, begin + kMaxStop);
    if (!held_up) return held_up.error();
    const error_code failed = copy_stopped(thread, mappings, memory, copy);
    ::ptrace(PTRACE_DETACH, thread, nullptr, static_cast<std::intptr_t>(*held_up));
    copy.stopped = Clock::now() - begin;
    return failed;
}

}  // namespace

boost::system::result<StoppedThread> copy_running_thread(pid_t process, pid_t thread,
                                                         const std::vector<Mapping>& mappings,
                                                         const MemoryReader& memory) {
    if (!runs(process, thread)) return system_error_of(EBUSY);
    StoppedThread copy;
    error_code failed;
    // A thread of its own: what it traces ends with it.
    std::thread([&] { failed = stop_and_copy(thread, mappings, memory, copy); }).join();
    ::kill(::getpid(), SIGCHLD);
    if (failed) return failed;
    return copy;
}

bool StackCopy::read(std::uintptr_t address, std::span<std::byte> into) const {
    const bool is_copied = address >= copy_.begin && address - copy_.begin <= copy_.stack.size() &&
                           into.size() <= copy_.stack.size() - (address - copy_.begin);
    if (!is_copied) return memory_.read(address, into);
    std::memcpy(into.data(), copy_.stack.data() + (address - copy_.begin), into.size());
    return true;
}

}  // namespace launch
}  // namespace ddprun
