#include "launcher/look/native/thread_stop.hpp"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "launcher/look/kernel_view.hpp"
#include "launcher/look/native/native_frames.hpp"
#include "launcher/look/process_memory.hpp"
#include "tests/launcher/look/other_process.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/hang_guard.hpp"

namespace ddprun {
namespace {

std::vector<Mapping> mappings_of(pid_t pid) {
    auto mappings = read_mappings(pid);
    REQUIRE(mappings.has_value());
    return std::move(*mappings);
}

boost::system::result<StoppedThread> copy_main(const OtherProcess& process) {
    return copy_running_thread(process.pid(), process.pid(), mappings_of(process.pid()),
                               ProcessMemory(process.pid()));
}

// A thread that computes is for moments in another state: when it takes a page.
StoppedThread copy_when_it_runs(const OtherProcess& process) {
    for (;;) {
        auto copy = copy_main(process);
        if (copy.has_value()) return std::move(*copy);
        REQUIRE(copy.error().value() == EBUSY);
    }
}

// Waits until the process has computed some more, untraced.
void expect_to_go_on(const OtherProcess& process) {
    const auto guard = std::chrono::steady_clock::now() + kHangGuard;
    const ProcessView before = read_process_view(process.pid());
    REQUIRE(before.main_thread() != nullptr);
    CHECK(before.tracer == 0);
    for (std::uint64_t ticks = before.main_thread()->cpu_ticks; ticks == before.main_thread()->cpu_ticks;) {
        REQUIRE(std::chrono::steady_clock::now() < guard);
        ticks = read_process_view(process.pid()).main_thread()->cpu_ticks;
        std::this_thread::yield();
    }
}

}  // namespace

TEST_CASE("a stop: a thread that computes shows its calls, and goes on") {
    for (const auto& [how, innermost] :
         {std::pair{"compute", "stub::Innermost::compute"}, {"tick", "stub::Innermost::tick"}}) {
        for (const char* program : {DDPRUN_LOOK_STUB, DDPRUN_LOOK_STUB_FRAMED, DDPRUN_LOOK_STUB_STATIC}) {
            OtherProcess process({program, how});
            REQUIRE(process.line() == "ready");
            process.await_state('R');
            const ProcessMemory memory(process.pid());
            const auto has_name = [](const NativeStack& stack, const char* name) {
                return std::any_of(stack.frames.begin(), stack.frames.end(),
                                   [&](const Frame& frame) { return frame.function == name; });
            };
            NativeStack stack;
            // It may just have begun.
            while (!has_name(stack, innermost)) {
                const StoppedThread copy = copy_when_it_runs(process);
                CHECK(copy.stopped <= kMaxStop);
                const StackCopy stopped(copy, memory);
                const NativeThread thread{copy.registers, &stopped};
                stack = native_stacks({process.pid(), std::chrono::steady_clock::now() + kHangGuard},
                                      mappings_of(process.pid()), std::span(&thread, 1))
                            .front();
            }
            CHECK(has_name(stack, "stub::outer"));
            CHECK(has_name(stack, "main"));
            CHECK(stack.is_whole);
            expect_to_go_on(process);
        }
    }
}

TEST_CASE("a stop: none for a thread that waits, is stopped, is traced or is gone") {
    OtherProcess process({DDPRUN_LOOK_STUB, "wait"});
    REQUIRE(process.line() == "ready");
    process.await_state('S');
    CHECK(copy_main(process).error().value() == EBUSY);
    ::kill(process.pid(), SIGSTOP);
    process.await_state('T');
    CHECK(copy_main(process).error().value() == EBUSY);
    OtherProcess traced({DDPRUN_LOOK_STUB, "compute"});
    REQUIRE(traced.line() == "ready");
    traced.await_state('R');
    REQUIRE(::ptrace(PTRACE_SEIZE, traced.pid(), nullptr, nullptr) == 0);
    const auto refused = copy_main(traced);
    REQUIRE_FALSE(refused.has_value());
    CHECK((refused.error().value() == EPERM || refused.error().value() == EBUSY));
    CHECK(copy_running_thread(4'194'305, 4'194'305, {}, ProcessMemory(4'194'305)).error().value() == EBUSY);
}

TEST_CASE("a stop: no signal to the thread is lost, however often it is stopped") {
    constexpr int kSignals = 3000;
    OtherProcess process([] {
        struct sigaction action {};
        action.sa_handler = [](int) {
            if (::write(STDOUT_FILENO, "one\n", 4) != 4) ::_exit(1);
        };
        ::sigaction(SIGRTMIN + 3, &action, nullptr);
        ::dprintf(STDOUT_FILENO, "ready\n");
        for (std::atomic<unsigned> rounds{0};;) ++rounds;
    });
    REQUIRE(process.line() == "ready");
    // Some come between the seizure and the stop, and are what stops the thread.
    std::atomic<bool> is_over{false};
    std::thread sender([&] {
        for (int i = 0; i < kSignals; ++i) {
            ::kill(process.pid(), SIGRTMIN + 3);
            std::this_thread::yield();
        }
        is_over = true;
    });
    int stops = 0;
    while (!is_over) {
        if (copy_main(process).has_value()) ++stops;
    }
    sender.join();
    for (int i = 0; i < kSignals; ++i) REQUIRE(process.line() == "one");
    CHECK(stops > 0);
}

TEST_CASE("a stop: the exit status stays for the one that reaps, also when the thread ends meanwhile") {
    for (int repeat = 0; repeat < 20; ++repeat) {
        const pid_t child = ::fork();
        if (child == 0) {
            struct sigaction action {};
            action.sa_handler = [](int) { ::_exit(7); };
            ::sigaction(SIGUSR1, &action, nullptr);
            for (std::atomic<unsigned> rounds{0};;) ++rounds;
        }
        std::atomic<bool> is_over{false};
        std::thread reader([&] {
            const ProcessMemory memory(child);
            while (!is_over) {
                const auto mappings = read_mappings(child);
                if (mappings.has_value()) copy_running_thread(child, child, *mappings, memory);
            }
        });
        // As the agent's reaper asks.
        siginfo_t info{};
        for (bool has_asked = false; info.si_code != CLD_EXITED && info.si_code != CLD_KILLED;) {
            info = {};
            ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL);
            if (!has_asked) ::kill(child, SIGUSR1);
            has_asked = true;
            std::this_thread::yield();
        }
        is_over = true;
        reader.join();
        int status = 0;
        CHECK(::waitpid(child, &status, 0) == child);
        CHECK((WIFEXITED(status) ? WEXITSTATUS(status) : -1) == (info.si_code == CLD_KILLED ? -1 : 7));
    }
}

}  // namespace ddprun
